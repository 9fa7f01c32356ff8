package store

import (
	"context"
	"fmt"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

const (
	// groupPage is how many messages of a group are read at a time, about.
	groupPage = 500
	// sweepPage is how many messages one script looks at, so that it does not block Redis for long.
	sweepPage = 500
)

// groupOf returns the group of a message within its entry, as the index has it, or "".
func groupOf(m *message.Message) string {
	name, err := wire.Group(m.Headers)
	if err != nil || name == "" {
		return "" // who takes the message in says what is wrong
	}
	return format.KeyOf(m.Entry, name)
}

// Group calls yield for the ID of each message of an entry that was parked with a group and that
// Redis still knows, until it returns false. An ID may come twice while others enter the group.
func (s *Store) Group(ctx context.Context, entry, name string, yield func(id string) bool) error {
	if err := checkGroup(name); err != nil {
		return err
	}
	if err := s.Check(ctx); err != nil {
		return err
	}
	if _, err := s.ReadLayout(ctx); err != nil {
		return err
	}
	shards, _ := s.Shards() // old ones first, whose groups stay until their messages have arrived in new ones
	for _, shard := range shards {
		for cursor := uint64(0); ; {
			fields, next, err := s.config.Client.HScan(ctx, shard.keys.Group(entry, name), cursor, "", groupPage).Result()
			if err != nil {
				return fmt.Errorf("read group %q: %w", name, server.ClassifyRead(err))
			}
			for i := 0; i+1 < len(fields); i += 2 {
				id := format.IDOf(fields[i])
				is, err := s.isMember(ctx, entry, id, fields[i], fields[i+1])
				if err != nil {
					return err
				}
				if is && !yield(id) {
					return nil
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// isMember reports whether a message is still one of a group: whether its record has the content with
// which it entered, since another message may have its key by now; and if it has left, whether there is
// no other message with its ID, which may be in no group.
func (s *Store) isMember(ctx context.Context, entry, id, key, digest string) (bool, error) {
	found, err := s.Look(ctx, entry, id)
	if err != nil {
		return false, err
	}
	for _, f := range found {
		if f.key == key && f.Digest() == digest {
			waits := f.In == Scheduled || f.In != Anywhere && f.Due() > f.Now
			return waits || len(found) == 1, nil
		}
	}
	return false, nil
}

func checkGroup(name string) error {
	if name == "" || len(name) > wire.MaxGroupBytes {
		return fmt.Errorf("%w: a group of %d bytes; use 1 to %d", ErrInvalid, len(name), wire.MaxGroupBytes)
	}
	return nil
}

// SweepGroups takes out of their groups, in all shards, messages that do not wait any more. In those from which
// messages move, groups stay as they are: what has left may not have arrived.
func (s *Store) SweepGroups(ctx context.Context) error {
	v := s.view.Load()
	shards := v.next
	if shards == nil {
		shards = v.shards
	}
	for _, shard := range shards {
		k := shard.keys
		for {
			n, err := s.scripts.Sweep.Run(ctx, s.config.Client, []string{k.Groups, k.Envelopes, k.Kept}, sweepPage).Int()
			if err != nil {
				return server.Classify(err)
			}
			if n < sweepPage {
				break
			}
		}
	}
	return nil
}

// groupOfStored returns the group that a message was parked with, as the index has it, or "": a retry is in none.
func groupOfStored(key string, r Record) string {
	one := Stored{Key: key, Record: r}
	m, err := one.Message()
	if err != nil || m.ID != one.ID() {
		return ""
	}
	return groupOf(&m)
}
