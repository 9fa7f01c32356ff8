package scenarios

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/roles"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/fault/world"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func processScenarios() []Scenario {
	list := []Scenario{
		{"bridge killed", allBridges(), Anywhere, func(i *injection) error { return i.killOne(i.oneBridge()) }},
		{"bridge stopped", allBridges(), Anywhere, func(i *injection) error { return i.stopSome(i.oneBridge()) }},
		{"all bridges stopped", allBridges(), Anywhere, func(i *injection) error {
			return i.stopSome(i.Processes[world.BridgeName(0)], i.Processes[world.BridgeName(1)])
		}},
		{"all bridges killed", allBridges(), Anywhere, func(i *injection) error {
			return i.killSome(i.Processes[world.BridgeName(0)], i.Processes[world.BridgeName(1)])
		}},
		{"bridge ended in order", allBridges(), Anywhere, func(i *injection) error {
			p := i.oneBridge()
			defer i.breaks("%s "+history.Orderly, p.Name())()
			err := p.Terminate()
			i.hold(0, time.Second)
			return errors.Join(err, p.Start(nil))
		}},
		{"consumer killed", allConsumers(), Anywhere, func(i *injection) error { return i.killOne(i.oneConsumer()) }},
		{"consumer stopped", allConsumers(), Anywhere, func(i *injection) error { return i.stopSome(i.oneConsumer()) }},
		{"relay killed", allRelays(), Anywhere, func(i *injection) error { return i.killOne(i.oneRelay()) }},
		{"relay stopped", allRelays(), Anywhere, func(i *injection) error { return i.stopSome(i.oneRelay()) }},
		{"relay dies at a step", allRelays(), Anywhere, func(i *injection) error {
			return i.atStep(i.oneRelay(), []string{roles.StepTaken, roles.StepSent, roles.StepRemoved}[i.rng.IntN(3)])
		}},
		{"shop in Python killed", []string{world.PythonCustomers, world.PythonConsumer}, Anywhere, func(i *injection) error {
			if !i.HasPython() {
				return nil
			}
			return i.killOne(i.Processes[[]string{world.PythonCustomers, world.PythonConsumer}[i.rng.IntN(2)]])
		}},
		{"producer killed", []string{world.Customers}, Anywhere, func(i *injection) error { return i.killOne(i.Processes[world.Customers]) }},
		{"producer stopped", []string{world.Customers}, Anywhere, func(i *injection) error { return i.stopSome(i.Processes[world.Customers]) }},
		{"tombstones outlasted", []string{ourProcesses}, Anywhere, (*injection).outlastTombstones},
		{"release changed", []string{ourProcesses}, Single | Apart, (*injection).changeRelease},
		{"wrong clocks", append(allBridges(), world.Customers), Anywhere, (*injection).wrongClocks},
	}
	for _, step := range []redisbridge.Step{redisbridge.StepClaimed, redisbridge.StepPublished, redisbridge.StepConfirmed, redisbridge.StepSettled} {
		list = append(list, Scenario{"bridge dies: " + step.String(), allBridges(), Anywhere, func(i *injection) error {
			return i.atStep(i.oneBridge(), step.String())
		}})
	}
	for _, step := range []string{roles.StepArrived, roles.StepReceived, roles.StepEffect, roles.StepDelayed, roles.StepAcknowledged} {
		list = append(list, Scenario{"consumer dies: " + step, allConsumers(), Anywhere, func(i *injection) error {
			return i.atStep(i.oneConsumer(), step)
		}})
	}
	return list
}

func allBridges() []string { return []string{world.BridgeName(0), world.BridgeName(1)} }
func allRelays() []string  { return []string{world.RelayName(0), world.RelayName(1)} }
func allConsumers() []string {
	return []string{world.ConsumerName(0), world.ConsumerName(1), world.MailConsumer}
}

func (i *injection) killOne(p *world.Process) error { return i.killSome(p) }

func (i *injection) killSome(processes ...*world.Process) error {
	for _, p := range processes {
		defer i.breaks("kill -9 %s", p.Name())()
		if err := p.Kill(); err != nil {
			return err
		}
	}
	i.hold(0, 2*time.Second)
	for _, p := range processes {
		if err := p.Start(nil); err != nil {
			return err
		}
	}
	return nil
}

func (i *injection) stopSome(processes ...*world.Process) error {
	for _, p := range processes {
		defer i.breaks("%s stands still", p.Name())()
		if err := p.Stop(); err != nil {
			return err
		}
	}
	i.hold(200*time.Millisecond, 6*time.Second)
	for _, p := range processes {
		if err := p.Continue(); err != nil {
			return err
		}
	}
	return nil
}

// shortTombstones is for how long tombstones are kept where consumers outlast them.
const shortTombstones = 3 * time.Second

// outlastTombstones has consumers stand still for longer than anybody knows that a message was
// cancelled or rescheduled.
func (i *injection) outlastTombstones() error {
	defer i.breaksAs(history.Event{Detail: fmt.Sprintf("tombstones are kept for %v, and consumers stand still for longer", shortTombstones), Forgets: true})()
	if err := i.changeAll(func(r *roles.Role) { r.Tombstones = shortTombstones }); err != nil {
		return err
	}
	i.hold(time.Second, 3*time.Second)
	for _, name := range allConsumers() {
		if err := i.Processes[name].Stop(); err != nil {
			return err
		}
	}
	i.hold(2*shortTombstones, 3*shortTombstones)
	for _, name := range allConsumers() {
		if err := i.Processes[name].Continue(); err != nil {
			return err
		}
	}
	i.hold(time.Second, 3*time.Second)
	return i.changeAll(func(r *roles.Role) { r.Tombstones = 0 })
}

// springWithin is what a process gets to come to a step, in a mixture that may
// keep it from its work for a while.
const springWithin = time.Minute

// atStep has a process kill itself at a step, and then another life of it stop
// itself there.
func (i *injection) atStep(p *world.Process, step string) error {
	for _, stop := range []bool{false, true} {
		t := &roles.Trap{Step: step, Nth: 1 + i.rng.Int64N(20), Stop: stop}
		if err := p.Terminate(); err != nil {
			return err
		}
		if err := p.Start(t); err != nil {
			return err
		}
		if !i.until(springWithin, p.Sprung) {
			i.Surprise(fmt.Sprintf("%s never came to its step %s number %d within %v", p.Name(), step, t.Nth, springWithin))
			if err := errors.Join(p.Kill(), p.Start(nil)); err != nil {
				return err
			}
			continue
		}
		mended := i.breaks("%s %s", p.Name(), t)
		var err error
		if stop {
			i.hold(100*time.Millisecond, 5*time.Second)
			err = p.Continue()
		} else {
			i.hold(0, time.Second)
			err = p.Start(nil)
		}
		mended()
		if err != nil {
			return err
		}
	}
	return nil
}

// wrongClocks moves the clocks of a bridge and of the producer by minutes, each
// by its own.
func (i *injection) wrongClocks() error {
	if _, err := i.Programs.Skewed(); err != nil { // wait while nothing is broken
		return err
	}
	some := []*world.Process{i.oneBridge(), i.Processes[world.Customers]}
	for _, p := range some {
		minutes := time.Duration(1 + i.rng.IntN(20))
		if i.rng.IntN(2) == 0 {
			minutes = -minutes
		}
		defer i.breaks("the clock of %s is wrong by %d minutes", p.Name(), minutes)()
		if err := p.Terminate(); err != nil {
			return err
		}
		p.Skew(minutes * time.Minute)
		if err := p.Start(nil); err != nil {
			return err
		}
	}
	i.hold(3*time.Second, 8*time.Second)
	for _, p := range some {
		if err := p.Terminate(); err != nil {
			return err
		}
		p.Skew(0)
		if err := p.Start(nil); err != nil {
			return err
		}
	}
	return nil
}

// changeRelease has one process after the other go over to the earlier release, and then back, each time in another
// order, half of them by kill -9.
func (i *injection) changeRelease() error {
	var changed bool // the earlier release knows no other number of shards
	err := i.WithRedis(func(c *redis.Client) error {
		generation, err := c.HExists(i.ctx, "{"+shop.Prefix+"}:layout", "generation").Result()
		changed = generation
		return err
	})
	if err != nil || changed {
		i.Say("NOT TRIED: %s: after the number of shards was changed", i.Name)
		return err
	}
	if _, err := i.Programs.Earlier(); err != nil { // wait while nothing is broken
		i.Say("NOT TRIED: %s: %v", i.Name, err)
		return nil
	}
	defer i.breaks("processes are of two releases")()
	for _, earlier := range []bool{true, false} {
		names := slices.Sorted(maps.Keys(i.Processes))
		i.rng.Shuffle(len(names), func(a, b int) { names[a], names[b] = names[b], names[a] })
		for _, name := range names {
			p := i.Processes[name]
			if p.InPython() || i.ctx.Err() != nil {
				continue
			}
			end := p.Terminate
			if i.rng.IntN(2) == 0 {
				end = p.Kill
			}
			if err := end(); err != nil {
				return err
			}
			p.TakeEarlier(earlier)
			if err := p.Start(nil); err != nil {
				return err
			}
			i.hold(time.Second, 3*time.Second)
		}
		i.hold(5*time.Second, 8*time.Second)
	}
	return nil
}
