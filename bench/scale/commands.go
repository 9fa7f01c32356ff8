package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

const (
	cancelRate     = 1_000 // a second
	deliveryRate   = 200   // a second
	commandsFor    = 15 * time.Second
	commandsAhead  = 40 * time.Second // until what is cancelled has been parked
	commandsRounds = 2
)

// commands measures how late messages are beside 1,000 cancels a second over AMQP, and without them.
func (s *suite) commands(ctx context.Context) error {
	return onServers(ctx, func(_ *servers.Pair, site *site) (err error) {
		bridge, err := s.startBridge(ctx, site, "bridge")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bridge.stop()) }()
		late := map[bool][]float64{}
		for round := range commandsRounds {
			for _, cancels := range lab.InTurns([]bool{true, false}, round) {
				p99, err := site.deliverBeside(ctx, fmt.Sprint("commands", round), cancels)
				if err != nil {
					return err
				}
				late[cancels] = append(late[cancels], p99)
			}
			lab.Say("commands %d of %d: 99%% are late by at most %.1f ms beside cancels, %.1f ms without", round+1, commandsRounds, late[true][round], late[false][round])
		}
		s.figures["commands_late_p99_ms"], s.figures["commands_none_late_p99_ms"] = figures.Median(late[true]), figures.Median(late[false])
		return nil
	})
}

// deliverBeside returns the lateness in ms that 99 % of the messages have at most.
func (s *site) deliverBeside(ctx context.Context, load string, cancels bool) (float64, error) {
	n := deliveryRate * int(commandsFor/time.Second)
	a := s.Begin(load, n)
	first := time.Now().Add(commandsAhead)
	due := func(i int) time.Time { return first.Add(part(commandsFor, i, n)).Truncate(time.Millisecond) }
	err := lab.Each(n, promoteHands, func(i int) error {
		_, err := s.Park.Park(ctx, &message.Message{ID: a.ID(i), RoutingKey: lab.RoutingKey}, message.At(due(i)))
		return err
	})
	if err == nil && cancels {
		err = s.cancelAt(ctx, load, first)
	}
	if err != nil {
		return 0, err
	}
	if err := s.Await(ctx, a, lab.Patience); err != nil {
		return 0, err
	}
	late := make([]float64, n)
	for i := range late {
		late[i] = float64(a.At[i].Sub(due(i)).Microseconds()) / 1000
	}
	return figures.Quantile(late, 0.99), nil
}

// cancelAt cancels messages over AMQP from an instant on, at cancelRate, and sees that all are.
func (s *site) cancelAt(ctx context.Context, load string, first time.Time) error {
	n := cancelRate * int(commandsFor/time.Second)
	id := func(i int) string { return fmt.Sprintf("cancelled-%s-%d", load, i) }
	err := lab.Each(n, promoteHands, func(i int) error {
		_, err := s.Park.Park(ctx, &message.Message{ID: id(i), RoutingKey: lab.RoutingKey}, message.After(time.Hour))
		return err
	})
	if err != nil {
		return err
	}
	if time.Now().After(first) {
		return errors.New("parking takes too long")
	}
	ch, err := s.Conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	for i := range n {
		time.Sleep(time.Until(first.Add(part(commandsFor, i, n))))
		err := ch.PublishWithContext(ctx, s.Topology.Command(), "", false, false, amqp.Publishing{
			Type: "cancel", DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil, `{"ids": [%q]}`, id(i)),
		})
		if err != nil {
			return err
		}
	}
	for i := range n {
		for deadline := time.Now().Add(lab.Patience); ; time.Sleep(10 * time.Millisecond) {
			m, err := s.Park.Get(ctx, id(i))
			if err == nil && m.State == redisbridge.StateCancelled {
				break
			}
			if err != nil || time.Now().After(deadline) {
				return fmt.Errorf("%s is %s (%w)", id(i), m.State, err)
			}
		}
	}
	return nil
}
