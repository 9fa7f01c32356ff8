package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// Quota is redisbridge.Quota.
type Quota struct {
	Messages int64
	Bytes    int64
	Delay    time.Duration
	Body     int64
}

// ErrQuota is redisbridge.ErrQuota.
var ErrQuota = errors.New("over its entry's quota")

// Usage is redisbridge.Usage.
type Usage struct {
	Messages int64 `json:"messages"`
	Bytes    int64 `json:"bytes"`
}

// counts reports whether q limits what is stored altogether.
func (q Quota) counts() bool { return q.Messages > 0 || q.Bytes > 0 }

// admit returns ErrQuota, with ErrInvalid, for a message that q never lets in. Redis decides whether that
// counts: one that waits already is no new one.
func (q Quota) admit(entry string, delay time.Duration, body int) error {
	var faults []error
	over := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %w: "+format, append([]any{ErrInvalid, ErrQuota}, args...)...))
	}
	if q.Delay > 0 && delay > q.Delay {
		over("the delay is %s, and %s takes %s at most", wire.TTLName(delay), entryText(entry), wire.TTLName(q.Delay))
	}
	if q.Body > 0 && int64(body) > q.Body {
		over("the body has %d bytes, and %s takes %d at most", body, entryText(entry), q.Body)
	}
	return errors.Join(faults...)
}

func entryText(entry string) string {
	if entry == "" {
		return "the default entry"
	}
	return "entry " + strconv.Quote(entry)
}

// Usage returns what is stored of each entry, by running counts. While messages move to other shards, those that
// are between two are missing.
func (s *Store) Usage(ctx context.Context) (map[string]Usage, error) {
	shards, _ := s.Shards()
	all := make([]*redis.MapStringStringCmd, len(shards))
	_, err := s.config.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n, shard := range shards {
			all[n] = pipe.HGetAll(ctx, shard.keys.Usage)
		}
		return nil
	})
	if err != nil {
		return nil, server.ClassifyRead(err)
	}
	sums := map[string]Usage{}
	for _, one := range all {
		for field, text := range one.Val() {
			what, entry, _ := strings.Cut(field, ":")
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("what is stored of %s: %w", entryText(entry), err)
			}
			sum := sums[entry]
			if what == "messages" {
				sum.Messages += n
			} else {
				sum.Bytes += n
			}
			sums[entry] = sum
		}
	}
	maps.DeleteFunc(sums, func(_ string, u Usage) bool { return u == Usage{} })
	return sums, nil
}

// limit finds those messages of a batch for which their entries have no room. It returns what ends
// the batch's turn: while one is on its way no other batch of this process is that asks for room,
// and so a quota is exceeded by no more than a batch of each other process.
func (s *Store) limit(ctx context.Context, batch []*pendingPark) (end func(), err error) {
	if !slices.ContainsFunc(batch, func(p *pendingPark) bool { return p.quota.counts() }) {
		return func() {}, nil
	}
	s.turn.Lock()
	usage, err := s.Usage(ctx)
	if err != nil {
		s.turn.Unlock()
		return nil, err
	}
	for _, p := range batch {
		if !p.quota.counts() {
			continue
		}
		u, size := usage[p.entry], int64(len(p.key)+len(p.stored))
		switch q := p.quota; {
		case q.Messages > 0 && u.Messages >= q.Messages:
			p.over = fmt.Errorf("%w: %s has %d messages, of %d at most", ErrQuota, entryText(p.entry), u.Messages, q.Messages)
		case q.Bytes > 0 && u.Bytes+size > q.Bytes:
			p.over = fmt.Errorf("%w: %s has %d bytes, and this message takes %d more, of %d at most", ErrQuota, entryText(p.entry), u.Bytes, size, q.Bytes)
		default:
			usage[p.entry] = Usage{u.Messages + 1, u.Bytes + size}
		}
	}
	return s.turn.Unlock, nil
}
