package consumer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// manage sends a request to the management API and returns the answer.
func (b *broker) manage(method, path, body string) []byte {
	b.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, b.management+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		b.t.Fatalf("%s %s: %s: %s (%v)", method, path, response.Status, answer, err)
	}
	return answer
}

// read reads what the management API answers.
func (b *broker) read(path string, answer any) {
	b.t.Helper()
	if err := json.Unmarshal(b.manage(http.MethodGet, path, ""), answer); err != nil {
		b.t.Fatal(err)
	}
}

// restrictedUser makes a user with the given permissions and returns the URL
// with its credentials.
func (b *broker) restrictedUser(permissions string) string {
	b.t.Helper()
	name := b.topology.Prefix()
	b.manage(http.MethodPut, "/api/users/"+name, `{"password":"p","tags":""}`)
	b.t.Cleanup(func() { b.manage(http.MethodDelete, "/api/users/"+name, "") })
	b.manage(http.MethodPut, "/api/permissions/"+b.vhost+"/"+name, permissions)
	u, err := url.Parse(b.url)
	if err != nil {
		b.t.Fatal(err)
	}
	u.User = url.UserPassword(name, "p")
	return u.String()
}

// cutConnections ends the connections whose client-given name contains name,
// and returns how many there were.
func (b *broker) cutConnections(name string) int {
	b.t.Helper()
	var connections []struct {
		Name       string `json:"name"`
		Properties struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	if err := json.Unmarshal(b.manage(http.MethodGet, "/api/vhosts/"+b.vhost+"/connections", ""), &connections); err != nil {
		b.t.Fatal(err)
	}
	n := 0
	for _, c := range connections {
		if strings.Contains(c.Properties.Name, name) {
			b.manage(http.MethodDelete, "/api/connections/"+url.PathEscape(c.Name), "")
			n++
		}
	}
	return n
}

// wantUnacknowledged returns nil once the broker shows n messages in the
// consumer's hands. It learns of that late.
func (b *broker) wantUnacknowledged(n int) error {
	var q struct {
		Unacknowledged int `json:"messages_unacknowledged"`
	}
	if err := json.Unmarshal(b.manage(http.MethodGet, "/api/queues/"+b.vhost+"/"+b.queue, ""), &q); err != nil {
		return err
	}
	if q.Unacknowledged != n {
		return fmt.Errorf("%d messages are unacknowledged, want %d", q.Unacknowledged, n)
	}
	return nil
}
