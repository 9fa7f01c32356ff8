package redisbridge

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

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
		return nil, classify(err)
	}
	return worst, nil
}

// warnOfPersistence says what the servers' settings do not guarantee.
func (b *Bridge) warnOfPersistence(ctx context.Context) {
	settings, err := Settings(ctx, b.config.Client)
	if err != nil {
		b.log.Warn("cannot see how Redis keeps data; see docs/operations.md", "error", err)
	}
	for _, s := range settings {
		if !s.Safe() {
			b.log.Warn("Redis is not set to keep what it confirms", "setting", s.Name,
				"found", s.Found, "want", s.Want, "otherwise", s.Otherwise)
		}
	}
}
