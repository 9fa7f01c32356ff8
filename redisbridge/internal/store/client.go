package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/tlsurl"
)

// clusterReload is how old a client's map of a Redis Cluster may be when it is
// used. A node that has failed can no longer say who has its slots now.
const clusterReload = 5 * time.Second

// NewClient is redisbridge.NewClient.
func NewClient(rawURL string) (redis.UniversalClient, error) {
	var fresh credentials // nil takes those of the URL
	named := rawURL
	if _, inFile := secretfile.Path(named); inFile {
		fresh = func(context.Context) (user, password string, err error) { return credentialsIn(named) }
	}
	rawURL, err := secretfile.Resolve(named)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	query := url.Values{}
	plain := rawURL // without what the library does not know
	var dial dialer
	if u, parseErr := url.Parse(rawURL); parseErr == nil {
		query = u.Query()
		plain = tlsurl.Without(u).String()
		if u.Scheme == "rediss" {
			dial = encrypted(query)
			_, err = tlsurl.Config(query, nil) // a wrong file is reported before any connection is made
		} else {
			err = tlsurl.Unencrypted(query, "rediss")
		}
	}
	var client redis.UniversalClient
	if err == nil {
		client, err = newClient(plain, query, dial, fresh)
	}
	if u, parseErr := url.Parse(rawURL); err == nil && parseErr == nil && broker.Misread(u) {
		_ = client.Close()
		err = broker.ErrMisread
	}
	switch {
	case err == nil:
		return client, nil
	case fresh != nil:
		return nil, fmt.Errorf("%s: %w", named, wrongURL(rawURL, query, err))
	default:
		return nil, wrongURL(rawURL, query, err)
	}
}

// credentials returns the user and the password for a connection.
type credentials func(context.Context) (user, password string, err error)

// dialer makes connections. Nil leaves that to the library.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// encrypted dials each server, of a cluster's and the Sentinels too, by what a query says of TLS. Its certificate
// has to be of the name or the address by which it is dialled, where the query gives none.
func encrypted(query url.Values) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		socket, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		conn, err := tlsurl.Client(ctx, socket, query, nil, host)
		if err != nil { // nothing has been sent
			_ = socket.Close()
			return nil, &net.OpError{Op: "dial", Net: network, Addr: socket.RemoteAddr(), Err: err}
		}
		return conn, nil
	}
}

func newClient(rawURL string, query url.Values, dial dialer, fresh credentials) (redis.UniversalClient, error) {
	switch {
	case query.Has("master_name"):
		options, err := redis.ParseFailoverURL(rawURL)
		if err != nil {
			return nil, err
		}
		if options.MasterName == "" {
			return nil, errors.New("master_name is empty")
		}
		if options.RouteByLatency || options.RouteRandomly || options.ReplicaOnly {
			return nil, errors.New("a replica can park nothing")
		}
		options.MaxRetries, options.CredentialsProviderContext, options.Dialer = -1, fresh, dial
		return redis.NewFailoverClient(options), nil
	case query.Has("addr"):
		options, err := redis.ParseClusterURL(rawURL)
		if err != nil {
			return nil, err
		}
		options.MaxRedirects, options.ClusterStateReloadInterval, options.CredentialsProviderContext = -1, clusterReload, fresh
		options.Dialer = dial
		client := redis.NewClusterClient(options)
		client.AddHook(moves{})
		return client, nil
	}
	options, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	options.MaxRetries, options.CredentialsProviderContext, options.Dialer = -1, fresh, dial
	return redis.NewClient(options), nil
}

// credentialsIn returns the user and the password of Redis that a file has now. Without them
// nothing is sent, so that the error is that of a server that cannot be dialled.
func credentialsIn(fileURL string) (user, password string, err error) {
	content, err := secretfile.Resolve(fileURL)
	if err != nil {
		return "", "", &net.OpError{Op: "dial", Net: "redis", Err: err}
	}
	u, err := url.Parse(content)
	if err != nil { // which quotes the URL
		return "", "", &net.OpError{Op: "dial", Net: "redis", Err: errors.New(fileURL + ": the URL in it cannot be parsed")}
	}
	if query := u.Query(); query.Has("master_name") { // before the host are those of the Sentinels
		return query.Get("username"), query.Get("password"), nil
	}
	password, _ = u.User.Password()
	return u.User.Username(), password, nil
}

// wrongURL says what is wrong with a URL. The library's error may quote any part of it, the
// password too, and so is left out where that is possible.
func wrongURL(rawURL string, query url.Values, err error) error {
	reason := err.Error()
	u, parseErr := url.Parse(rawURL)
	switch {
	case parseErr != nil || u.Opaque != "":
		reason = "it cannot be parsed"
	case broker.Misread(u):
		reason = broker.ErrMisread.Error()
	case slices.ContainsFunc(query["addr"], func(addr string) bool { return strings.Contains(addr, "@") }):
		reason = "there is an @ in addr: user and password belong in front of the first host"
	default:
		password, _ := u.User.Password()
		for _, secret := range []string{password, query.Get("password")} {
			if secret != "" && strings.Contains(reason, secret) {
				reason = "the database, or an option, is not what it has to be"
			}
		}
	}
	return fmt.Errorf("%w: %s: %s; want redis://user:password@host:6379/0", ErrConfiguration, broker.Redact(rawURL), reason)
}

const (
	// movesMost bounds how often a command is sent again after MOVED.
	movesMost = 5
	// movesPause is about how long the library takes to ask for the new map.
	movesPause = 20 * time.Millisecond
)

// moves has a cluster's client send a command again where a node answers that
// the keys are elsewhere. Until then the library has got a new map.
type moves struct{}

func (moves) DialHook(next redis.DialHook) redis.DialHook { return next }

func (moves) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (moves) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		for try := 1; try <= movesMost && err != nil && strings.HasPrefix(err.Error(), "MOVED ") && ctx.Err() == nil; try++ {
			pause(ctx, time.Duration(try)*movesPause)
			err = next(ctx, cmd)
		}
		return err
	}
}

// eachServer does something with every server that takes writes.
func eachServer(ctx context.Context, client redis.UniversalClient, do func(context.Context, redis.UniversalClient) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
	}
	return do(ctx, client)
}

// Setting is one of a Redis server's on which it depends what an answer guarantees.
type Setting struct {
	Name, Want, Found string
	// Otherwise is what happens where it is another one than Want.
	Otherwise string
}

// Safe reports whether the setting is as it should be.
func (s Setting) Safe() bool { return s.Found == s.Want }

// Settings reads how Redis keeps data. Of several servers it returns the worst of each
// setting. A server may forbid the question (CONFIG GET).
func Settings(ctx context.Context, client redis.UniversalClient) ([]Setting, error) {
	worst := []Setting{
		{Name: "appendonly", Want: "yes", Otherwise: "parked messages are lost when Redis stops"},
		{Name: "appendfsync", Want: "always", Otherwise: "messages parked in the last second can be lost when Redis crashes"},
		{Name: "maxmemory-policy", Want: "noeviction", Otherwise: "a full Redis throws parked messages away"},
	}
	var mu sync.Mutex // servers are asked side by side
	err := eachServer(ctx, client, func(ctx context.Context, server redis.UniversalClient) error {
		for i := range worst {
			found, err := server.ConfigGet(ctx, worst[i].Name).Result()
			if err != nil {
				return err
			}
			mu.Lock()
			if s := &worst[i]; s.Found == "" || s.Safe() {
				s.Found = found[s.Name]
			}
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return nil, Classify(err)
	}
	return worst, nil
}

// Memory is what a Redis server uses of what it may, in bytes.
type Memory struct {
	Used int64
	Most int64 // maxmemory; 0 where there is none
}

// fuller reports whether m is nearer to its limit than other. Without a limit nothing is full.
func (m Memory) fuller(other Memory) bool {
	share := func(m Memory) float64 {
		if m.Most == 0 {
			return 0
		}
		return float64(m.Used) / float64(m.Most)
	}
	return cmp.Or(cmp.Compare(share(m), share(other)), cmp.Compare(m.Used, other.Used)) > 0
}

// Fullest reads how full Redis is. Of several servers it returns the one that is nearest to its limit. A user
// may be forbidden to ask (INFO).
func Fullest(ctx context.Context, client redis.UniversalClient) (fullest Memory, err error) {
	var mu sync.Mutex // servers are asked side by side
	err = eachServer(ctx, client, func(ctx context.Context, server redis.UniversalClient) error {
		text, err := server.Info(ctx, "memory").Result()
		if err != nil {
			return err
		}
		var m Memory
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			switch name {
			case "used_memory":
				m.Used, err = strconv.ParseInt(value, 10, 64)
			case "maxmemory":
				m.Most, err = strconv.ParseInt(value, 10, 64)
			}
			if err != nil {
				return fmt.Errorf("INFO memory: %w", err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if m.fuller(fullest) {
			fullest = m
		}
		return nil
	})
	return fullest, Classify(err)
}

// Errors that callers branch on; redisbridge says what they mean.
var (
	ErrUnconfirmed   = broker.ErrUnconfirmed
	ErrUnreachable   = errors.New("cannot reach Redis; is it running, and is the address right?")
	ErrConfiguration = errors.New("wrong Redis configuration")
	ErrNotFound      = errors.New("no message with this ID is known")
	ErrInvalid       = errors.New("invalid")
	ErrBusy          = errors.New("all connections of the pool to Redis are in use; use a larger pool_size in its URL, or fewer calls at a time")
	ErrFull          = errors.New("no room in Redis: raise maxmemory, and keep maxmemory-policy noeviction")
)

// Classify turns an error of the client library into one of the above, where it
// is one of these. What stays as it is was refused for now: nothing was done.
//
// Every command was sent once: see [NewClient].
func Classify(err error) error {
	var answer redis.Error
	var network *net.OpError
	switch {
	case err == nil, errors.Is(err, redis.ErrClosed):
		return err
	case errors.Is(err, redis.Nil) && !errors.As(err, &network): // every Sentinel has said so
		return fmt.Errorf("%w: Sentinel knows no master_name like that of the URL: %w", ErrConfiguration, err)
	case errors.As(err, &answer) && !errors.Is(err, redis.Nil):
		return classifyAnswer(err, answer.Error())
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, tlsurl.ErrSettings):
		return fmt.Errorf("%w: %w", ErrConfiguration, err)
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
}

// classifyRead is Classify for what has changed nothing: there is nothing to be unsure of.
func classifyRead(err error) error {
	classified := Classify(err)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(classified, ErrUnconfirmed):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return classified
}

func classifyAnswer(err error, text string) error {
	if beginsWith(text, "ERR Error compiling script") {
		return fmt.Errorf("%w: Redis is too old for the scripts: use Redis 7, Valkey 8, or a newer one: %w", ErrConfiguration, err)
	}
	if isMistake(text) {
		err = fmt.Errorf("%w: %w", ErrConfiguration, err)
		if !strings.Contains(text, duringScript) {
			return err
		}
	}
	switch {
	case strings.HasPrefix(text, "OOM "):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case isRefusal(text):
		return err
	}
	// A script has stopped half-way, perhaps after it had written something.
	return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
}

// duringScript is in the answer where a command of a script has failed.
const duringScript = " script: "

// isMistake recognises the answers that only a person can change.
func isMistake(text string) bool {
	return beginsWith(text, "WRONGPASS ", "NOAUTH ", "NOPERM ", "ERR invalid password", "ERR DB index",
		"ERR unknown command", "ERR This instance has cluster support disabled", // the URL is of another layout
		"ERR The user executing the script") // how Redis 7.0 says NOPERM
}

// isRefusal recognises the answers by which a server refuses for now, or sends
// elsewhere. They are definite: the server looks for such a state before a
// script runs, or at its first write. A script that has written is not refused
// any more, and SCRIPT KILL cannot end it.
func isRefusal(text string) bool {
	return beginsWith(text, "LOADING ", "READONLY ", "BUSY ", "MASTERDOWN ", "NOREPLICAS ", "MISCONF ",
		"CLUSTERDOWN ", "TRYAGAIN ", "MOVED ", "ASK ", "NOSCRIPT ", gone, notYet, "ERR max number of clients reached")
}

func beginsWith(text string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}
