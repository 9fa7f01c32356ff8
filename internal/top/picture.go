package top

import (
	"encoding/json"
	"math"
	"time"

	"github.com/delaybridge/delaybridge/redisbridge"
)

// Picture is all that is shown. Instants are by Redis' clock, except those of sources.
type Picture struct {
	At         time.Time   `json:"at"` // by this machine's clock
	Prefix     string      `json:"prefix"`
	Problems   []Problem   `json:"problems"`
	Redis      SourceState `json:"redis"`
	RabbitMQ   SourceState `json:"rabbitmq"`
	Management SourceState `json:"management"`

	Now        time.Time `json:"now,omitzero"` // Redis' clock, when it last answered
	NextDue    time.Time `json:"next_due,omitzero"`
	OldestLate time.Time `json:"oldest_late,omitzero"`
	Parked     int       `json:"parked"`
	Promoting  int       `json:"promoting"`
	In         Rate      `json:"in_per_s"`
	Out        Rate      `json:"out_per_s"`
	Late       Lateness  `json:"late"`

	Rows    []Row                     `json:"tiers"`
	Shards  []Shard                   `json:"shards"`
	Bridges []redisbridge.BridgeStats `json:"bridges"`

	Inbox      Queue `json:"inbox"`
	Unrouted   Queue `json:"unrouted"`
	Quarantine Queue `json:"quarantine"`
	NotTaken   *int  `json:"not_taken"`
}

// SourceState says whether a source answers.
type SourceState struct {
	// Answered is when it last did; zero is never.
	Answered time.Time `json:"answered,omitzero"`
	// Since is from when on it does not answer; zero where it does.
	Since time.Time `json:"silent_since,omitzero"`
	// Error says why, and Reason the same in short.
	Error  string `json:"error,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// IsAway reports whether the source does not answer.
func (s SourceState) IsAway() bool { return !s.Since.IsZero() }

// Row is a TTL: messages with exactly this delay are in the tier, promoted ones in lanes.
type Row struct {
	// TTL is that of tier and lanes; "" is for what goes straight to the ready exchange.
	TTL string `json:"ttl"`
	// Tier and Lane are null where the configuration has none; Lane is of all shards.
	Tier *Queue `json:"tier"`
	Lane *Queue `json:"lanes"`
	// Parked is how many wait in Redis for this lane, or to go straight to the ready
	// exchange; Late is of the latter.
	Parked int      `json:"parked"`
	Late   Lateness `json:"late"`
}

// Queue is a queue, or several together.
type Queue struct {
	Messages *int     `json:"messages"` // null where there is no such queue
	In       Rate     `json:"in_per_s"`
	Out      Rate     `json:"out_per_s"`
	Late     Lateness `json:"late"`
}

// Shard is one of Redis' shards.
type Shard struct {
	Shard      int       `json:"shard"`
	Name       string    `json:"name"` // the number, behind "old-" while messages move from the shard to others
	Owner      string    `json:"owner,omitempty"`
	Alive      bool      `json:"owner_alive"`
	Parked     int       `json:"parked"`
	Promoting  int       `json:"promoting"`
	In         Rate      `json:"in_per_s"`
	Out        Rate      `json:"out_per_s"`
	NextDue    time.Time `json:"next_due,omitzero"`
	OldestLate time.Time `json:"oldest_late,omitzero"`
	Late       Lateness  `json:"late"`
}

// Rate is in messages per second, or not known.
type Rate struct {
	PerSecond float64
	Known     bool
}

// MarshalJSON writes a number with one decimal, or null.
func (r Rate) MarshalJSON() ([]byte, error) {
	if !r.Known {
		return []byte("null"), nil
	}
	return json.Marshal(math.Round(r.PerSecond*10) / 10)
}

// Lateness sums up deliveries of the last minute.
type Lateness struct {
	Messages int           // that were looked at
	P50, P99 time.Duration // of those
	Max      time.Duration
}

// MarshalJSON writes milliseconds, or null without deliveries.
func (l Lateness) MarshalJSON() ([]byte, error) {
	if l.Messages == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(map[string]int64{
		"messages": int64(l.Messages), "p50_ms": l.P50.Milliseconds(), "p99_ms": l.P99.Milliseconds(), "max_ms": l.Max.Milliseconds(),
	})
}

// Problem is what an operator should look at.
type Problem struct {
	Kind  string    `json:"kind"`
	Grave bool      `json:"grave"` // messages are late, or will be
	Text  string    `json:"text"`
	Do    string    `json:"do"`
	Since time.Time `json:"since"` // or longer, by this machine's clock
}
