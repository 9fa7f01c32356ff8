package broker

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Pool publishes over several channels, each of which carries the messages of one target at
// a time, so that a queue that answers nothing holds up no message to another.
//
// RabbitMQ's channel process waits, for half a minute or more, for a quorum queue to answer
// when it gets its first message over the channel (rabbit_fifo_client, RabbitMQ 3.10 to 4.3),
// and meanwhile handles nothing that follows on that channel, wherever it goes.
type Pool struct {
	conn *Conn
	most int

	mu   sync.Mutex
	of   map[Target]*use
	all  []*pooled
	idle []*pooled
}

// use is a target that has messages without an answer.
type use struct {
	line *pooled
	n    int
}

type pooled struct {
	*Publisher
	n     int
	since time.Time // of the last answer, or of the first message that has none
}

// NewPool returns a pool that opens up to most channels over conn, on use. With more
// targets than that at a time, targets share channels.
func NewPool(conn *Conn, most int) *Pool { return &Pool{conn: conn, most: most, of: map[Target]*use{}} }

// Publish is [Publisher.Publish] for a message to t. Messages to one target are sent in the
// order of the calls while one of them has no answer.
func (p *Pool) Publish(ctx context.Context, t Target, out Outgoing, done func(error)) error {
	line := p.take(t)
	err := line.Publish(ctx, out, func(err error) {
		p.give(t)
		done(err)
	})
	if err != nil {
		p.give(t)
	}
	return err
}

func (p *Pool) take(t Target) *pooled {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.of[t]
	if u == nil {
		u = &use{line: p.pick()}
		p.of[t] = u
	}
	if u.line.n == 0 {
		u.line.since = time.Now()
	}
	u.n++
	u.line.n++
	return u.line
}

// pick returns a channel that carries nothing, or else the one that carries the least of
// those that answer. Where none answers, the one that has not for the longest is closed.
func (p *Pool) pick() *pooled {
	if n := len(p.idle); n > 0 {
		line := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return line
	}
	if len(p.all) < p.most {
		line := &pooled{Publisher: NewPublisher(p.conn)}
		p.all = append(p.all, line)
		return line
	}
	now := time.Now()
	least, oldest := (*pooled)(nil), p.all[0]
	for _, line := range p.all {
		if now.Sub(line.since) < silentAfter && (least == nil || line.n < least.n) {
			least = line
		}
		if line.since.Before(oldest.since) {
			oldest = line
		}
	}
	if least != nil {
		return least
	}
	oldest.since = now
	go oldest.Close()
	return oldest
}

func (p *Pool) give(t Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.of[t]
	u.n--
	u.line.n--
	u.line.since = time.Now()
	if u.n == 0 {
		delete(p.of, t)
	}
	if u.line.n == 0 {
		p.idle = append(p.idle, u.line)
	}
}

// Close closes all channels. Messages without an answer end as unconfirmed.
func (p *Pool) Close() {
	p.mu.Lock()
	all := slices.Clone(p.all)
	p.mu.Unlock()
	for _, line := range all {
		line.Close()
	}
}
