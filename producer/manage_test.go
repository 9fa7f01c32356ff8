package producer_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// manage sends a request to the management API, as an operator would.
func manage(t *testing.T, env servertest.Env, method, path, body string) {
	t.Helper()
	request, err := http.NewRequest(method, env.ManagementURL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s %s (%v)", method, path, response.Status, answer, err)
	}
}
