package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

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
func (s *scale) commands(ctx context.Context) error {
	return onServers(ctx, func(_ *servers.Pair, site *site) (err error) {
		bridge, err := s.startBridge(ctx, site, "bridge")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bridge.stop()) }()
		late := map[bool][]float64{}
		for round := range commandsRounds {
			for _, cancels := range inTurns([]bool{true, false}, round) {
				p99, err := site.deliverBeside(ctx, fmt.Sprint("commands", round), cancels)
				if err != nil {
					return err
				}
				late[cancels] = append(late[cancels], p99)
			}
			say("commands %d of %d: 99%% are late by at most %.1f ms beside cancels, %.1f ms without", round+1, commandsRounds, late[true][round], late[false][round])
		}
		s.figures["commands_late_p99_ms"], s.figures["commands_none_late_p99_ms"] = median(late[true]), median(late[false])
		return nil
	})
}

// deliverBeside returns the lateness in ms that 99 % of the messages have at most.
func (s *site) deliverBeside(ctx context.Context, load string, cancels bool) (float64, error) {
	n := deliveryRate * int(commandsFor/time.Second)
	a := s.begin(load, n)
	first := time.Now().Add(commandsAhead)
	due := func(i int) time.Time { return first.Add(part(commandsFor, i, n)).Truncate(time.Millisecond) }
	err := each(n, promoteHands, func(i int) error {
		_, err := s.park.Park(ctx, &message.Message{ID: a.id(i), RoutingKey: routingKey}, message.At(due(i)))
		return err
	})
	if err == nil && cancels {
		err = s.cancelAt(ctx, load, first)
	}
	if err != nil {
		return 0, err
	}
	if err := s.await(ctx, a, patience); err != nil {
		return 0, err
	}
	late := make([]float64, n)
	for i := range late {
		late[i] = float64(a.at[i].Sub(due(i)).Microseconds()) / 1000
	}
	return quantile(late, 0.99), nil
}

// cancelAt cancels messages over AMQP from an instant on, at cancelRate, and sees that all are.
func (s *site) cancelAt(ctx context.Context, load string, first time.Time) error {
	n := cancelRate * int(commandsFor/time.Second)
	id := func(i int) string { return fmt.Sprintf("cancelled-%s-%d", load, i) }
	err := each(n, promoteHands, func(i int) error {
		_, err := s.park.Park(ctx, &message.Message{ID: id(i), RoutingKey: routingKey}, message.After(time.Hour))
		return err
	})
	if err != nil {
		return err
	}
	if time.Now().After(first) {
		return errors.New("parking takes too long")
	}
	ch, err := s.conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	for i := range n {
		time.Sleep(time.Until(first.Add(part(commandsFor, i, n))))
		err := ch.PublishWithContext(ctx, s.topology.Command(), "", false, false, amqp.Publishing{
			Type: "cancel", DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil, `{"ids": [%q]}`, id(i)),
		})
		if err != nil {
			return err
		}
	}
	for i := range n {
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			m, err := s.park.Get(ctx, id(i))
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
