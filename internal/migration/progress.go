package migration

import (
	"fmt"
	"slices"
	"time"
)

// LongestDelay is the longest one the plugin knows: 2^32-1 ms, some 49 days.
const LongestDelay = (1<<32 - 1) * time.Millisecond

// keepLooks is how far back looks are kept: over that time a fall is measured.
const keepLooks = 10 * time.Minute

// States of an exchange of the plugin, from far to near the end.
const (
	StateUnknown   = "unknown"   // the broker does not tell enough
	StatePublished = "published" // messages still come in
	StateWatching  = "watching"  // nobody has published so far, and it was not watched for long enough
	StateHolds     = "holds"     // nobody publishes, and messages are still delayed inside
	StateEmpty     = "empty"     // nobody publishes, and nothing is inside
)

// History is what looks at the plugin's exchanges have shown, one after the other.
type History struct {
	// SilentFor is how long nobody must have published to an exchange. The broker's
	// statistics are up to ten seconds old.
	SilentFor time.Duration
	// LongestDelay is the longest delay that publishers have asked for; with 0 it is not known.
	LongestDelay time.Duration
	// Entries are the names of the entry exchanges, by exchange of the plugin.
	Entries map[string]string

	looks []Look
	first map[string]time.Time // when an exchange was seen first
	grew  map[string]time.Time // when one was last seen to have got messages
}

// Progress is how far an exchange of the plugin is.
type Progress struct {
	Exchange      string `json:"exchange"`
	Type          string `json:"type"`
	EntryExchange string `json:"entry_exchange"` // "" if no entry can take its place
	State         string `json:"state"`
	Delayed       *int64 `json:"messages_delayed"` // nil where the broker does not tell
	// Rates are nil where the broker does not count, or after one look.
	Falls       *float64   `json:"falls_per_second"` // of Delayed; negative while it grows
	In          *float64   `json:"published_per_second"`
	InEntry     *float64   `json:"published_to_entry_per_second"`
	SilentSince *time.Time `json:"silent_since"` // nil while somebody publishes, or if that is not known
	// Publishers have published to it; nil where the broker does not tell them by exchange.
	Publishers []Publisher `json:"publishers"`
	// EmptyAt is when it is empty if the number goes on falling as it has; EmptyBy is when the
	// longest delay is over of what was published last. Nil where it cannot be said.
	EmptyAt *time.Time `json:"empty_at"`
	EmptyBy *time.Time `json:"empty_by"`
	RestsOn string     `json:"estimate_rests_on"`
}

// Status is how far the move from the plugin's exchanges is.
type Status struct {
	At        time.Time  `json:"at"`
	VHost     string     `json:"vhost"`
	Done      bool       `json:"done"` // all exchanges are empty, and nobody publishes to them
	Exchanges []Progress `json:"exchanges"`
	// Publishers publish to some exchange of the virtual host, where the broker does not tell who
	// publishes to which one, and somebody publishes to one of the plugin.
	Publishers []Publisher `json:"publishers"`
	Nodes      []string    `json:"nodes"`
	NotAsked   []string    `json:"nodes_not_asked"`
	Unknown    []string    `json:"not_known"`
}

// Add adds a look, which is younger than those before.
func (h *History) Add(l Look) {
	if h.first == nil {
		h.first, h.grew = map[string]time.Time{}, map[string]time.Time{}
	}
	for _, s := range l.Exchanges {
		before := h.before(s.Exchange)
		switch {
		case before == nil || s.beganAnew(*before):
			h.first[s.Exchange] = l.At
			delete(h.grew, s.Exchange)
		case s.gotMore(*before):
			h.grew[s.Exchange] = l.At
		}
	}
	h.looks = append(h.looks, l)
	for len(h.looks) > 2 && l.At.Sub(h.looks[0].At) > keepLooks {
		h.looks = h.looks[1:]
	}
}

// before is what the last look has shown of an exchange, or nil.
func (h *History) before(exchange string) *Sample {
	if len(h.looks) == 0 {
		return nil
	}
	return h.looks[len(h.looks)-1].of(exchange)
}

// beganAnew reports whether a node has restarted since, so that what was published meanwhile is
// not known.
func (s Sample) beganAnew(before Sample) bool {
	return (s.Published == nil) != (before.Published == nil) || s.Published != nil && *s.Published < *before.Published
}

// gotMore reports whether messages have come since. What comes as a dead letter, or from
// another exchange, is not counted, but it is held.
func (s Sample) gotMore(before Sample) bool {
	counted := s.Published != nil && before.Published != nil && *s.Published > *before.Published
	held := s.Delayed != nil && before.Delayed != nil && *s.Delayed > *before.Delayed
	return counted || held
}

func (l Look) of(exchange string) *Sample {
	for _, s := range l.Exchanges {
		if s.Exchange == exchange {
			return &s
		}
	}
	return nil
}

// Status says how far the move is, from all looks. Without any it is zero.
func (h *History) Status() Status {
	if len(h.looks) == 0 {
		return Status{}
	}
	last := h.looks[len(h.looks)-1]
	status := Status{
		At: last.At, Done: true, Exchanges: []Progress{},
		Publishers: []Publisher{}, Nodes: append([]string{}, last.Nodes...),
		NotAsked: append([]string{}, last.NotAsked...), Unknown: append([]string{}, last.Unknown...),
	}
	published := false
	for _, node := range last.NotAsked {
		status.Unknown = append(status.Unknown, fmt.Sprintf("how many messages node %s holds: each node counts its own, and this one was not asked", node))
	}
	for _, s := range last.Exchanges {
		p := h.progress(last, s)
		status.Done = status.Done && p.State == StateEmpty
		published = published || p.State == StatePublished
		status.Exchanges = append(status.Exchanges, p)
		if s.Delayed == nil {
			status.Unknown = append(status.Unknown, fmt.Sprintf("how many messages exchange %s holds: the broker does not tell (messages_delayed)", s.Exchange))
		}
	}
	if published && len(last.Publishers) > 0 {
		status.Publishers = append(status.Publishers, last.Publishers...)
		status.Unknown = append(status.Unknown, detailedRates)
	}
	return status
}

func (h *History) progress(last Look, s Sample) Progress {
	p := Progress{
		Exchange: s.Exchange, Type: s.Type, EntryExchange: h.Entries[s.Exchange], Delayed: s.Delayed, Publishers: s.Publishers,
		In:      counterRate(h.rate(s.Exchange, h.SilentFor, true, func(s *Sample) *int64 { return s.Published })),
		InEntry: counterRate(h.rate(s.Exchange, h.SilentFor, true, func(s *Sample) *int64 { return s.PublishedToEntry })),
	}
	since, grew := h.grew[s.Exchange]
	if !grew {
		since = h.first[s.Exchange]
	}
	silent := last.At.Sub(since)
	if fall := h.rate(s.Exchange, silent, false, func(s *Sample) *int64 { return s.Delayed }); fall != nil {
		rate := 0 - *fall // which is never -0
		p.Falls = &rate
	}
	recently := silent < h.SilentFor
	switch {
	case grew && recently:
		p.State = StatePublished
	case s.Published == nil || s.Delayed == nil:
		p.State = StateUnknown
	case recently:
		p.State = StateWatching
	case *s.Delayed > 0:
		p.State = StateHolds
	case len(last.NotAsked) > 0:
		p.State = StateUnknown
	default:
		p.State = StateEmpty
	}
	if s.Published != nil && p.State != StatePublished {
		p.SilentSince = &since
	}
	h.estimate(&p, last.At, since)
	return p
}

// rate is by how much a number has grown a second over the last while, or a bit more where
// the looks are not so close, if that is wanted. Nil if it is not known.
func (h *History) rate(exchange string, over time.Duration, orMore bool, of func(*Sample) *int64) *float64 {
	last := len(h.looks) - 1
	from := slices.IndexFunc(h.looks, func(l Look) bool { return h.looks[last].At.Sub(l.At) <= over })
	if orMore && h.looks[last].At.Sub(h.looks[from].At) < over {
		from--
	}
	from = max(min(from, last-1), 0)
	a, b := h.looks[from].of(exchange), h.looks[last].of(exchange)
	took := h.looks[last].At.Sub(h.looks[from].At).Seconds()
	if a == nil || of(a) == nil || of(b) == nil || took <= 0 {
		return nil
	}
	rate := float64(*of(b)-*of(a)) / took
	return &rate
}

// counterRate leaves out the rate of a counter that has begun anew.
func counterRate(rate *float64) *float64 {
	if rate != nil && *rate < 0 {
		return nil
	}
	return rate
}

// estimate says when the exchange is empty. The plugin tells no due times, so it rests on how the
// number has fallen since nobody publishes, and on the longest delay.
func (h *History) estimate(p *Progress, now, since time.Time) {
	switch {
	case p.State == StatePublished:
		p.RestsOn = "nothing: messages still come in"
		return
	case p.Delayed == nil || *p.Delayed == 0 || p.SilentSince == nil:
		return
	}
	longest, whose := h.LongestDelay, "that was given"
	if longest == 0 {
		longest, whose = LongestDelay, "that the plugin knows"
	}
	delay := fmt.Sprintf("the longest delay %s (%s)", whose, longest)
	by, latest := since.Add(longest), now.Add(LongestDelay)
	passed := by.Before(now)
	if passed {
		delay += ", which is over: there are longer ones, or messages come in that are not counted"
		p.RestsOn = "nothing, since not on " + delay
	} else {
		delay += fmt.Sprintf(", counted from %s, when the last message was published or the watch began", since.Format(time.RFC3339))
		p.EmptyBy, latest = &by, by
		p.RestsOn = delay
	}
	if p.Falls == nil || *p.Falls <= 0 {
		return
	}
	seconds := float64(*p.Delayed) / *p.Falls
	soon := seconds < latest.Sub(now).Seconds()
	if passed && !soon {
		return // too slow to tell anything
	}
	at, join := latest, ", and on "
	if soon {
		at = now.Add(time.Duration(seconds * float64(time.Second)))
	}
	if passed {
		join = ", and not on "
	}
	p.EmptyAt = &at
	p.RestsOn = fmt.Sprintf("a fall of %.3g a second since nobody publishes, which need not go on", *p.Falls) + join + delay
}
