package scenarios

import (
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/world"
)

func networkScenarios() []Scenario {
	var list []Scenario
	for _, server := range []struct{ name, lock string }{{world.RabbitMQ, rabbitMQNet}, {world.Redis, redisNet}} {
		needs := []string{server.lock}
		on := func(do func(*injection, []*world.Link) error) func(*injection) error {
			return func(i *injection) error {
				links := i.Links(server.name)
				if i.rng.IntN(3) > 0 { // one alone, or all of them
					links = []*world.Link{links[i.rng.IntN(len(links))]}
				}
				return do(i, links)
			}
		}
		list = append(
			list,
			Scenario{server.name + " cut off", needs, Anywhere, on((*injection).cutOff)},
			Scenario{server.name + " slow", needs, Anywhere, on((*injection).slowDown)},
			Scenario{server.name + " half-open", needs, Anywhere, on((*injection).halfOpen)},
		)
	}
	return list
}

func (i *injection) cutOff(links []*world.Link) error {
	for _, l := range links {
		defer i.breaks("%s is cut", l.Name)()
		l.Cut()
	}
	i.hold(200*time.Millisecond, 5*time.Second)
	for _, l := range links {
		if err := l.Join(); err != nil {
			return err
		}
	}
	return nil
}

func (i *injection) slowDown(links []*world.Link) error {
	latency := 50 + i.rng.IntN(1200)
	return i.poisonFor(links, "slow: %s needs %d ms more each way", latency, "latency", map[string]int{"latency": latency, "jitter": latency / 4})
}

// halfOpen swallows all data, in one direction or both, and leaves the
// connections open.
func (i *injection) halfOpen(links []*world.Link) error {
	return i.poisonFor(links, "%s is half-open (%d)", 0, "timeout", map[string]int{"timeout": 0})
}

func (i *injection) poisonFor(links []*world.Link, what string, n int, kind string, attributes map[string]int) error {
	directions := [][]string{{world.ToServer, world.FromServer}, {world.ToServer}, {world.FromServer}}[i.rng.IntN(3)]
	for _, l := range links {
		defer i.breaks(what, l.Name, n)()
		if err := l.Poison(kind, attributes, directions...); err != nil {
			return err
		}
		defer l.Heal(i.ctx)
	}
	i.hold(500*time.Millisecond, 6*time.Second)
	return nil
}
