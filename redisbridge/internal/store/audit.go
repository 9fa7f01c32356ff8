package store

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// auditMost is how many records of the audit log are kept, about: Redis drops the oldest in blocks.
	auditMost = 10_000
	// auditPage is how many are read at a time.
	auditPage = 500
	// auditField has the text of a record.
	auditField = "record"
)

// Audited is a record of the audit log.
type Audited struct {
	Position string    // in the log
	At       time.Time // by Redis' clock
	Text     string
}

// AppendAudit adds a record to the audit log. It asks for no layout: the log is there before the first bridge.
func (s *Store) AppendAudit(ctx context.Context, text string) error {
	return Classify(s.config.Client.XAdd(ctx, &redis.XAddArgs{
		Stream: auditKey(s.config.Topology), MaxLen: auditMost, Approx: true, Values: []string{auditField, text},
	}).Err())
}

// AuditLog returns a page of the records that were written since an instant and after a position, the oldest
// first. Either may be zero. An empty page is the end.
func (s *Store) AuditLog(ctx context.Context, since time.Time, after string) ([]Audited, error) {
	start := "-"
	switch {
	case after != "":
		start = "(" + after
	case !since.IsZero():
		start = strconv.FormatInt(max(0, since.UnixMilli()), 10)
	}
	found, err := s.config.Client.XRangeN(ctx, auditKey(s.config.Topology), start, "+", auditPage).Result()
	if err != nil {
		return nil, classifyRead(err)
	}
	page := make([]Audited, len(found))
	for i, one := range found {
		text, _ := one.Values[auditField].(string)
		ms, _, _ := strings.Cut(one.ID, "-")
		at, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return nil, err
		}
		page[i] = Audited{Position: one.ID, At: InstantOf(at).UTC(), Text: text}
	}
	return page, nil
}
