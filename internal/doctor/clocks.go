package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
)

const (
	// clockLimit is how far two clocks may be apart, beyond what the question took.
	clockLimit = time.Second
	clockReads = 5
	// showWithin is how long the management API may take to show a connection.
	showWithin = 15 * time.Second
)

// offset bounds how far a server's clock is ahead of this machine's.
type offset struct{ least, most time.Duration }

// reading bounds it by one reading, of the given resolution.
func reading(asked, heard, read time.Time, resolution time.Duration) offset {
	return offset{read.Sub(heard), read.Add(resolution).Sub(asked)}
}

func (o offset) narrow(p offset) offset { return offset{max(o.least, p.least), min(o.most, p.most)} }

// minus is how far o's clock is ahead of p's.
func (o offset) minus(p offset) offset { return offset{o.least - p.most, o.most - p.least} }

// wrong says how far off the clock is, if that is more than the limit for certain.
func (o offset) wrong() (text string, wrong bool) {
	middle, uncertain := (o.least+o.most)/2, (o.most-o.least)/2
	switch {
	case o.least > clockLimit:
		return fmt.Sprintf("%v ahead of", middle.Round(time.Millisecond)) + uncertainty(uncertain), true
	case o.most < -clockLimit:
		return fmt.Sprintf("%v behind", (-middle).Round(time.Millisecond)) + uncertainty(uncertain), true
	}
	return "", false
}

func uncertainty(d time.Duration) string {
	return fmt.Sprintf(" (±%v)", d.Round(time.Millisecond)+time.Millisecond)
}

// redisClock compares each server's clock with this machine's.
func (x *examination) redisClock(ctx context.Context) ([]Finding, error) {
	return eachServer(ctx, x.Redis, func(ctx context.Context, n redisNode) ([]Finding, error) {
		o, err := x.redisOffset(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("TIME: %w", err)
		}
		text, wrong := o.wrong()
		if !wrong {
			return nil, nil
		}
		return []Finding{find(redisClockWrong, n.subject(), "its clock is "+text+" this machine's", "timedatectl status")}, nil
	})
}

func (x *examination) redisOffset(ctx context.Context, n redisNode) (o offset, err error) {
	for i := range clockReads {
		asked := x.Now()
		read, err := n.Time(ctx).Result()
		if err != nil {
			return offset{}, err
		}
		one := reading(asked, x.Now(), read, time.Microsecond)
		if i == 0 {
			o = one
		}
		o = o.narrow(one)
	}
	return o, nil
}

// brokerClock compares the clock of a node of RabbitMQ with Redis'. A node tells its
// clock by when it saw a connection, to the millisecond.
func (x *examination) brokerClock(ctx context.Context) ([]Finding, error) {
	if x.amqpUser() != x.Management.User() { // one's own connections are shown to everybody
		if err := x.tagged(tagMonitoring); err != nil {
			return nil, err
		}
	}
	node, broker, err := x.brokerOffset(ctx)
	if err != nil {
		return nil, err
	}
	reference, against := offset{}, "this machine's"
	var once sync.Once
	_, err = eachServer(ctx, x.Redis, func(ctx context.Context, n redisNode) (_ []Finding, err error) {
		var o offset
		if o, err = x.redisOffset(ctx, n); err == nil {
			once.Do(func() { reference, against = o, "that of Redis at "+n.address })
		}
		return nil, err
	})
	_ = err // the check of Redis' clock says so; this machine's has to do
	return judgeBrokerClock(node, against, broker.minus(reference)), nil
}

func judgeBrokerClock(node, against string, o offset) []Finding {
	text, wrong := o.wrong()
	if !wrong {
		return nil
	}
	return []Finding{find(brokerClockWrong, "node "+node, "its clock is "+text+" "+against, "timedatectl status")}
}

// brokerOffset makes a connection, and looks when the node says that it was made.
func (x *examination) brokerOffset(ctx context.Context) (node string, o offset, err error) {
	name := connectionName + " " + rand.Text()
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(name)
	asked := x.Now()
	var conn *amqp.Connection
	for _, host := range broker.Hosts(x.AMQPURL) {
		if conn, err = amqp.DialConfig(host, amqp.Config{Properties: properties, Dial: amqp.DefaultDial(x.Patience)}); err == nil {
			break
		}
	}
	if err != nil {
		return "", offset{}, err
	}
	heard := x.Now()
	defer func() { _ = conn.Close() }()
	for until := time.Now().Add(showWithin); time.Now().Before(until); {
		var list []struct {
			Name        string `json:"user_provided_name"`
			Node        string `json:"node"`
			ConnectedAt int64  `json:"connected_at"`
		}
		if err := x.Management.Get(ctx, "vhosts/{vhost}/connections", &list); err != nil {
			return "", offset{}, err
		}
		for _, c := range list {
			if c.Name == name && c.ConnectedAt > 0 {
				return c.Node, reading(asked, heard, time.UnixMilli(c.ConnectedAt), time.Millisecond), nil
			}
		}
		if err := again(ctx, 500*time.Millisecond); err != nil {
			return "", offset{}, err
		}
	}
	return "", offset{}, fmt.Errorf("the management API does not show a connection that was made %v ago", showWithin)
}
