package rabbitmq

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Manage calls RabbitMQ's management API at address, which has the credentials,
// and returns the answer's body. body is JSON, or empty. A status of 400 and
// more is an error with what the broker says. ctx bounds the call: the API hangs
// for a while after a node of a cluster has fallen silent.
func Manage(ctx context.Context, address, method, path, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	// No idle connection may be left for goleak to find.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return answer, nil
}
