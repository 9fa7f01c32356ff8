package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/defaults"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// installation is a topology of two shards that processes of a test work on.
type installation struct {
	program string
	env     []string
	prefix  string
	redis   redis.UniversalClient
	park    *redisbridge.Park
	ready   <-chan amqp.Delivery // all that is due
}

func install(t *testing.T) *installation {
	t.Helper()
	vars := scriptEnv(t)
	vars["DELAYBRIDGE_SHARDS"] = "2"
	i := &installation{program: filepath.Join(program(t), "delaybridge"), env: os.Environ(), prefix: vars["DELAYBRIDGE_PREFIX"]}
	for name, value := range vars {
		i.env = append(i.env, name+"="+value)
	}
	if err := i.start(t, "topology", "apply").Wait(); err != nil {
		t.Fatal(err)
	}
	top, err := topology.New(topology.Config{
		Prefix: i.prefix, Tiers: []time.Duration{time.Second, 30 * time.Second}, Lead: time.Second, Shards: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	i.ready = everythingReady(t, vars["DELAYBRIDGE_AMQP_URL"], top)
	if i.redis, err = redisbridge.NewClient(vars["DELAYBRIDGE_REDIS_URL"]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.redis.Close() })
	if i.park, err = redisbridge.NewPark(redisbridge.ParkConfig{Client: i.redis, Topology: top}); err != nil {
		t.Fatal(err)
	}
	servertest.VerifyAfter(t, i.park)
	return i
}

// start starts a process that is killed after the test, if it still runs then.
func (i *installation) start(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(i.program, arguments...)
	cmd.Env = i.env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// Two bridge processes; one is killed while both work, the other one stands
// still for a while. Everything arrives, nothing early.
func TestKilledAndStoppedBridgesLoseNothing(t *testing.T) {
	t.Parallel()
	in := install(t)
	const n = 600
	due := map[string]time.Time{}
	for i := range n {
		id := fmt.Sprintf("m-%d", i)
		ticket, err := in.park.Park(t.Context(), &message.Message{ID: id, RoutingKey: "k"}, message.After(1500*time.Millisecond+time.Duration(i)*10*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		due[id] = ticket.Due
	}
	killed, stopped := in.start(t, "bridge", "--name", "killed", "--lease", "1s"), in.start(t, "bridge", "--name", "stopped", "--lease", "1s")

	arrived := map[string]bool{}
	for deadline := time.After(time.Minute); len(arrived) < n; {
		select {
		case d := <-in.ready:
			if early := time.Until(due[d.MessageId]); early > 0 {
				t.Errorf("%s arrived %v early", d.MessageId, early)
			}
			before := len(arrived)
			arrived[d.MessageId] = true
			switch {
			case len(arrived) == before: // delivered twice, as may happen
			case len(arrived) == n/4:
				if err := killed.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			case len(arrived) == n/2:
				if err := stopped.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(700*time.Millisecond, func() { _ = stopped.Process.Signal(syscall.SIGCONT) })
			}
		case <-deadline:
			t.Fatalf("%d of %d messages arrived", len(arrived), n)
		}
	}
	if err := stopped.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := stopped.Wait(); err != nil {
		t.Errorf("SIGTERM: %v, want exit code 0", err)
	}
}

// A bridge is killed under load. The other one takes its shard over when the lease is over, and
// does not wait until the dead one is out of the register. The instants are Redis' own.
func TestTakeOverWaitsForTheLeaseAlone(t *testing.T) {
	t.Parallel()
	in := install(t)
	dead := in.start(t, "bridge", "--name", "dead")
	in.start(t, "bridge", "--name", "heir")

	parked := 0
	// awaitOwners parks messages until the shards' owners are as wanted, and returns the state
	// of each shard as it was then.
	awaitOwners := func(wanted func(names []string) bool) (states []map[string]string) {
		t.Helper()
		for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
			for range 5 {
				m := &message.Message{ID: fmt.Sprintf("m-%d", parked), RoutingKey: "k"}
				if _, err := in.park.Park(t.Context(), m, message.After(time.Duration(1500+parked%3000)*time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				parked++
			}
			states = nil
			var names []string
			for shard := range 2 {
				state, err := in.redis.HGetAll(t.Context(), fmt.Sprintf("{%s:%d}:state", in.prefix, shard)).Result()
				if err != nil {
					t.Fatal(err)
				}
				name, _, _ := strings.Cut(state["owner"], "-")
				states, names = append(states, state), append(names, name)
			}
			if wanted(names) {
				return states
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("the shards' owners are %q", names)
			}
		}
	}
	leaseEnd := func(state map[string]string) time.Time {
		ms, err := strconv.ParseInt(state["lease"], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.UnixMilli(ms)
	}
	awaitOwners(func(names []string) bool { slices.Sort(names); return slices.Equal(names, []string{"dead", "heir"}) })
	if err := dead.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = dead.Wait()
	last := awaitOwners(func(names []string) bool { return slices.Contains(names, "dead") })
	next := awaitOwners(func(names []string) bool { return slices.Equal(names, []string{"heir", "heir"}) })
	for shard := range last {
		if !strings.HasPrefix(last[shard]["owner"], "dead-") {
			continue
		}
		if score, err := in.redis.ZScore(t.Context(), "{"+in.prefix+"}:bridges", last[shard]["owner"]).Result(); err != nil || score == 0 {
			t.Errorf("the shard was taken over only once the dead bridge was out of the register (%v)", err)
		}
		taken := leaseEnd(next[shard]).Add(-defaults.Lease) // or a renewal soon after
		after := taken.Sub(leaseEnd(last[shard]))
		t.Logf("shard %d was taken over %v after the lease was over", shard, after)
		if after < 0 || after > defaults.Lease {
			t.Errorf("shard %d was taken over %v after the dead bridge's lease was over, want within a lease of %v", shard, after, defaults.Lease)
		}
	}
	arrived := map[string]bool{}
	for deadline := time.After(time.Minute); len(arrived) < parked; {
		select {
		case d := <-in.ready:
			arrived[d.MessageId] = true
		case <-deadline:
			t.Fatalf("%d of %d messages arrived", len(arrived), parked)
		}
	}
}

// everythingReady consumes all that reaches the ready exchange.
func everythingReady(t *testing.T, url string, top *topology.Topology) <-chan amqp.Delivery {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	queue, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(queue.Name, "#", top.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue.Name, "", true, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return deliveries
}
