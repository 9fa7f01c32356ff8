package server

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

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
		return nil, ClassifyRead(err)
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
	return fullest, ClassifyRead(err)
}
