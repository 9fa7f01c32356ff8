package fault

import "time"

func networkScenarios() []scenario {
	var list []scenario
	for _, server := range []struct{ name, lock string }{{"rabbitmq", rabbitMQNet}, {"redis", redisNet}} {
		needs := []string{server.lock}
		on := func(do func(*injection, []*link) error) func(*injection) error {
			return func(i *injection) error {
				links := i.links(server.name)
				if i.rng.IntN(3) > 0 { // one alone, or all of them
					links = []*link{links[i.rng.IntN(len(links))]}
				}
				return do(i, links)
			}
		}
		list = append(
			list,
			scenario{server.name + " cut off", needs, anywhere, on((*injection).cutOff)},
			scenario{server.name + " slow", needs, anywhere, on((*injection).slowDown)},
			scenario{server.name + " half-open", needs, anywhere, on((*injection).halfOpen)},
		)
	}
	return list
}

func (i *injection) cutOff(links []*link) error {
	for _, l := range links {
		defer i.breaks("%s is cut", l.name)()
		l.cut()
	}
	i.hold(200*time.Millisecond, 5*time.Second)
	for _, l := range links {
		if err := l.join(); err != nil {
			return err
		}
	}
	return nil
}

func (i *injection) slowDown(links []*link) error {
	latency := 50 + i.rng.IntN(1200)
	return i.poisonFor(links, "slow: %s needs %d ms more each way", latency, "latency", map[string]int{"latency": latency, "jitter": latency / 4})
}

// halfOpen swallows all data, in one direction or both, and leaves the
// connections open.
func (i *injection) halfOpen(links []*link) error {
	return i.poisonFor(links, "%s is half-open (%d)", 0, "timeout", map[string]int{"timeout": 0})
}

func (i *injection) poisonFor(links []*link, what string, n int, kind string, attributes map[string]int) error {
	directions := [][]string{{toServer, fromServer}, {toServer}, {fromServer}}[i.rng.IntN(3)]
	for _, l := range links {
		defer i.breaks(what, l.name, n)()
		if err := l.poison(kind, attributes, directions...); err != nil {
			return err
		}
		defer l.heal(i.ctx)
	}
	i.hold(500*time.Millisecond, 6*time.Second)
	return nil
}
