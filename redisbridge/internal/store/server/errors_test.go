package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// answer is what a Redis server says instead of a result.
type answer string

func (a answer) Error() string { return string(a) }

// RedisError marks it as an answer, as the client library does.
func (answer) RedisError() {}

func TestWhatAnErrorOfRedisMeans(t *testing.T) {
	t.Parallel()
	const during = " script: 0fa3, on @user_script:12."
	meanings := []error{
		server.ErrUnconfirmed, server.ErrUnreachable, server.ErrConfiguration, server.ErrFull, server.ErrBusy,
	}
	for name, tc := range map[string]struct {
		err  error
		want []error // of meanings; none: refused for now
	}{
		"loading":                 {err: answer("LOADING Redis is loading the dataset in memory")},
		"replica":                 {err: answer("READONLY You can't write against a read only replica.")},
		"replica, in a script":    {err: answer("READONLY You can't write against a read only replica." + during)},
		"busy":                    {err: answer("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")},
		"primary gone":            {err: answer("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")},
		"too few replicas":        {err: answer("NOREPLICAS Not enough good replicas to write.")},
		"disk":                    {err: answer("MISCONF Errors writing to the AOF file: No space left on device")},
		"cluster":                 {err: answer("CLUSTERDOWN The cluster is down")},
		"slot elsewhere":          {err: answer("MOVED 3999 127.0.0.1:6381")},
		"slot moves":              {err: answer("TRYAGAIN Multiple keys request during rehashing of slot")},
		"no cluster":              {err: answer("ERR This instance has cluster support disabled"), want: []error{server.ErrConfiguration}},
		"no Sentinel":             {err: answer("ERR unknown command 'sentinel', with args beginning with: 'get-master-addr-by-name'"), want: []error{server.ErrConfiguration}},
		"no such master":          {err: fmt.Errorf("sentinels: %w", errors.Join(redis.Nil, redis.Nil)), want: []error{server.ErrConfiguration}},
		"a Sentinel down":         {err: fmt.Errorf("sentinels: %w", errors.Join(redis.Nil, &net.OpError{Op: "dial", Err: errors.New("refused")})), want: []error{server.ErrUnreachable}},
		"wrapped":                 {err: fmt.Errorf("pipeline: %w", answer("LOADING Redis is loading the dataset in memory"))},
		"closed":                  {err: redis.ErrClosed},
		"full":                    {err: answer("OOM command not allowed when used memory > 'maxmemory'."), want: []error{server.ErrFull}},
		"full, in a script":       {err: answer("OOM command not allowed when used memory > 'maxmemory'." + during), want: []error{server.ErrFull}},
		"password":                {err: answer("WRONGPASS invalid username-password pair or user is disabled."), want: []error{server.ErrConfiguration}},
		"permission":              {err: answer("NOPERM this user has no permissions to run the 'evalsha' command"), want: []error{server.ErrConfiguration}},
		"permission, in a script": {err: answer("NOPERM The user executing the script can't access a key" + during), want: []error{server.ErrConfiguration, server.ErrUnconfirmed}},
		"too old":                 {err: answer("ERR Error compiling script (new function): user_script:14: '=' expected near 'claimed' "), want: []error{server.ErrConfiguration}},
		"another type":            {err: answer("WRONGTYPE Operation against a key holding the wrong kind of value" + during), want: []error{server.ErrUnconfirmed}},
		"killed script":           {err: answer("ERR Error running script: Script killed by user with SCRIPT KILL..."), want: []error{server.ErrUnconfirmed}},
		"no pool":                 {err: redis.ErrPoolTimeout, want: []error{server.ErrBusy}},
		"pool exhausted":          {err: redis.ErrPoolExhausted, want: []error{server.ErrBusy}},
		"refused connection":      {err: &net.OpError{Op: "dial", Err: errors.New("refused")}, want: []error{server.ErrUnreachable}},
		"broken connection":       {err: &net.OpError{Op: "read", Err: errors.New("reset")}, want: []error{server.ErrUnconfirmed}},
		"end of connection":       {err: io.EOF, want: []error{server.ErrUnconfirmed}},
		"no more patience":        {err: context.DeadlineExceeded, want: []error{server.ErrUnconfirmed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := server.Classify(tc.err)
			if !errors.Is(got, tc.err) {
				t.Errorf("got %v, which does not wrap the cause", got)
			}
			for _, meaning := range meanings {
				wanted := false
				for _, w := range tc.want {
					wanted = wanted || errors.Is(w, meaning)
				}
				if errors.Is(got, meaning) != wanted {
					t.Errorf("got %v; that it is %q: %v, want %v", got, meaning, !wanted, wanted)
				}
			}
		})
	}
}

// What only reads has changed nothing, so its outcome is never in doubt. Who answers was reached.
func TestWhatAnErrorMeansForARead(t *testing.T) {
	t.Parallel()
	const during = " script: 0fa3, on @user_script:12."
	for name, tc := range map[string]struct {
		err  error
		want error // nil: as it is
	}{
		"end of connection":       {io.EOF, server.ErrUnreachable},
		"no more patience":        {context.DeadlineExceeded, server.ErrUnreachable},
		"another type":            {answer("WRONGTYPE Operation against a key holding the wrong kind of value" + during), nil},
		"permission, in a script": {answer("NOPERM The user executing the script can't access a key" + during), server.ErrConfiguration},
		"loading":                 {answer("LOADING Redis is loading the dataset in memory"), nil},
		"interrupted":             {context.Canceled, nil},
	} {
		got := server.ClassifyRead(tc.err)
		if !errors.Is(got, tc.err) || errors.Is(got, server.ErrUnconfirmed) || tc.want != nil && !errors.Is(got, tc.want) ||
			tc.want == nil && got.Error() != tc.err.Error() {
			t.Errorf("%s: %v", name, got)
		}
	}
}
