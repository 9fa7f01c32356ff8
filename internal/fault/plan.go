package fault

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/scenarios"
)

// Where the time goes.
const (
	clusterShare = 0.2  // of the whole
	aloneShare   = 0.65 // of a world's time
	// leastAlone is what a scenario needs alone, on the average. Where there is
	// less time than that for each, there is only the mixture.
	leastAlone = 5 * time.Second
	// calmFor is how long a run goes on before anything is broken, so that what is late then
	// is seen. Shorter runs than leastWithCalm begin at once.
	calmFor       = 10 * time.Second
	leastWithCalm = time.Minute
	// leastWithApart is for how long a run goes on in which what takes minutes is tried, too.
	leastWithApart = 20 * time.Minute
	// mixers is how many scenarios are under way at a time in the mixture.
	mixers = 3
)

// Names of acts: before anything is broken, and when scenarios overlap.
const (
	calmAct = "nothing broken"
	mixture = "all together"
)

// part is what happens in one world.
type part struct {
	name     string
	kind     scenarios.Where
	duration time.Duration
}

func (c *Config) parts() []part {
	node := part{"node", scenarios.Single, c.Duration}
	cluster := part{"cluster", scenarios.Clustered, time.Duration(clusterShare * float64(c.Duration))}
	if c.Only != "" {
		i := slices.IndexFunc(scenarios.All(), func(s scenarios.Scenario) bool { return s.Name == c.Only })
		if i >= 0 && scenarios.All()[i].Where == scenarios.Clustered {
			cluster.duration = c.Duration
			return []part{cluster}
		}
		return []part{node}
	}
	if cluster.duration < time.Duration(len(ofClusters()))*leastAlone {
		return []part{node}
	}
	node.duration -= cluster.duration
	return []part{node, cluster}
}

// ofClusters are the scenarios that there are in clusters alone.
func ofClusters() []scenarios.Scenario {
	return slices.DeleteFunc(scenarios.All(), func(s scenarios.Scenario) bool { return s.Where != scenarios.Clustered })
}

// act is a stretch of a run that one scenario has alone, or in which they are
// mixed.
type act struct {
	name     string
	began    int64 // Unix microseconds
	duration time.Duration
	deck     []scenarios.Scenario
	hands    int // how many scenarios at a time
	atLeast  int // how many in all
}

// acts divides a part's time. In a cluster only what is different there is tried
// alone.
func (c *Config) acts(p part) []act {
	var here, alone []scenarios.Scenario
	for _, s := range scenarios.All() {
		if s.Where&scenarios.Apart != 0 && c.Only == "" && c.Duration < leastWithApart {
			continue
		}
		if s.Where&p.kind != 0 && (c.Only == "" || s.Name == c.Only) {
			if s.Where&scenarios.Apart == 0 || c.Only != "" {
				here = append(here, s)
			}
			if p.kind == scenarios.Single || s.Where == scenarios.Clustered {
				alone = append(alone, s)
			}
		}
	}
	if c.Only != "" {
		return []act{{name: c.Only, duration: p.duration, deck: here, hands: 1, atLeast: 1}}
	}
	var acts []act
	left := p.duration
	if p.kind == scenarios.Single && c.Duration >= leastWithCalm {
		acts = append(acts, act{name: calmAct, duration: calmFor})
		left -= calmFor
	}
	each := time.Duration(aloneShare*float64(left)) / time.Duration(len(alone))
	if each >= leastAlone {
		for _, s := range alone {
			acts = append(acts, act{name: s.Name, duration: each, deck: []scenarios.Scenario{s}, hands: 1, atLeast: 1})
			left -= each
		}
	}
	return append(acts, act{name: mixture, duration: left, deck: here, hands: mixers})
}

// dealer deals scenarios from a deck that is shuffled anew whenever it is used
// up. What is dealt when, and all choices within it, follow from the seed.
type dealer struct {
	deck         []scenarios.Scenario
	seed, stream uint64

	mu sync.Mutex
	n  int
}

// dealt counts what was dealt.
func (d *dealer) dealt() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// deal returns the next scenario, and what its choices follow from.
func (d *dealer) deal() (scenarios.Scenario, *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rng := rand.New(rand.NewPCG(d.seed, d.stream+uint64(d.n)))
	at := d.n % len(d.deck)
	if at == 0 {
		d.deck = slices.Clone(d.deck)
		rng.Shuffle(len(d.deck), func(i, j int) { d.deck[i], d.deck[j] = d.deck[j], d.deck[i] })
	}
	d.n++
	return d.deck[at], rng
}
