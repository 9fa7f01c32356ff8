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

// userToBeCut makes a user whose connections cutConnections ends, and returns the URL with
// its credentials.
func (b *broker) userToBeCut() string {
	b.t.Helper()
	return b.restrictedUser(`{"configure":".*","write":".*","read":".*"}`)
}

// cutConnections ends the connections of userToBeCut once there are so many. The broker
// knows of them even where its statistics, which have the others, have come to a halt.
func (b *broker) cutConnections(n int) {
	b.t.Helper()
	path := "/api/connections/username/" + b.topology.Prefix()
	eventually(b.t, func() error {
		var connections []struct{}
		if b.read(path, &connections); len(connections) < n {
			return fmt.Errorf("%d connections, want %d", len(connections), n)
		}
		return nil
	})
	b.manage(http.MethodDelete, path, "")
}

// wantUnacknowledged returns nil once the broker shows n messages in the
// consumer's hands. It learns of that late.
func (b *broker) wantUnacknowledged(n int) error {
	var queues []struct {
		Name           string
		Unacknowledged int `json:"messages_unacknowledged"`
	}
	b.read("/api/queues/"+b.vhost+"?disable_stats=true&enable_queue_totals=true", &queues)
	for _, q := range queues {
		if q.Name == b.queue && q.Unacknowledged == n {
			return nil
		}
	}
	return fmt.Errorf("want %d messages of %s unacknowledged, got %+v", n, b.queue, queues)
}
