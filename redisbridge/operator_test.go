package redisbridge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// An operator is connected to each server that takes writes, of a cluster
// several, and gives up at the first refusal.
type operator []*redis.Client

// each does something with every server.
func (o operator) each(t testing.TB, do func(*redis.Client) error) error {
	t.Helper()
	var errs []error
	for _, server := range o {
		errs = append(errs, do(server))
	}
	return errors.Join(errs...)
}

func (o operator) set(t testing.TB, setting, value string) {
	t.Helper()
	if err := o.each(t, func(server *redis.Client) error { return server.ConfigSet(t.Context(), setting, value).Err() }); err != nil {
		t.Fatal(err)
	}
}

// do has every server execute a command.
func (o operator) do(t testing.TB, command ...any) {
	t.Helper()
	if err := o.each(t, func(server *redis.Client) error { return server.Do(t.Context(), command...).Err() }); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

// awaitPing returns when every server answers so.
func (o operator) awaitPing(t *testing.T, want string) {
	t.Helper()
	until(t, "every server answers "+want, func() bool {
		return o.each(t, func(server *redis.Client) error {
			answer, err := server.Ping(t.Context()).Result()
			if err != nil {
				answer = err.Error()
			}
			if !strings.HasPrefix(answer, want) {
				return fmt.Errorf("it answers %s", answer)
			}
			return nil
		}) == nil
	})
}

// keysLike are the keys that match a pattern, on any server.
func keysLike(t testing.TB, url, pattern string) []string {
	t.Helper()
	var all []string
	err := operator(servertest.Primaries(t, url)).each(t, func(server *redis.Client) error {
		keys, err := server.Keys(t.Context(), pattern).Result()
		all = slices.Concat(all, keys)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
