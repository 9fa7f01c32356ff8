package redisserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers/containers"
	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// Replicate makes the server a replica of another one of the same kind, in
// place of all it holds, and returns when it has caught up with what the
// primary held. It is a primary again after a restart.
func (r *Node) Replicate(ctx context.Context, primary *Node) error {
	return r.Wrap("replicate", r.replicate(ctx, primary))
}

func (r *Node) replicate(ctx context.Context, primary *Node) error {
	if err := primary.meet(ctx, r); err != nil {
		return err
	}
	return r.command(func(own *redis.Client) error {
		return primary.command(func(other *redis.Client) error {
			if err := errors.Join(prepare(ctx, own, r.peer()), prepare(ctx, other, primary.peer())); err != nil {
				return err
			}
			at := primary.peer()
			if err := own.ReplicaOf(ctx, at.host, at.port).Err(); err != nil {
				return err
			}
			if err := lifecycle.Await(ctx, func(ctx context.Context) error { return linked(ctx, own) }); err != nil {
				return err
			}
			state, err := replication(ctx, other)
			if err != nil {
				return err
			}
			return lifecycle.Await(ctx, func(ctx context.Context) error { return caughtUp(ctx, own, state["master_repl_offset"]) })
		})
	})
}

// A peer is a server's address for other servers.
type peer struct{ host, port string }

func (r *Node) peer() peer {
	if b, contained := r.Instance.(*containers.Container); contained {
		return peer{b.Name, strconv.Itoa(portInside)}
	}
	return peer{"127.0.0.1", strconv.Itoa(r.port)}
}

// meet makes two servers reach each other.
func (r *Node) meet(ctx context.Context, other *Node) error {
	switch one := r.Instance.(type) {
	case *private.Node:
		if _, same := other.Instance.(*private.Node); same {
			return nil
		}
	case *containers.Container:
		if two, same := other.Instance.(*containers.Container); same {
			return containers.Introduce(ctx, one, two)
		}
	}
	return fmt.Errorf("a %T and a %T cannot reach each other", r.Instance, other.Instance)
}

// prepare makes a server fit for either role.
func prepare(ctx context.Context, c *redis.Client, own peer) error {
	return errors.Join(
		// FAILOVER tells a primary to follow the address that its replica has
		// announced. By default that is the one it came from, which a container
		// loses when it is restarted.
		c.ConfigSet(ctx, "replica-announce-ip", own.host).Err(),
		c.ConfigSet(ctx, "replica-announce-port", own.port).Err(),
		// No second replica is worth a wait of 5 s for it.
		c.ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err(),
	)
}

// Promote makes a replica a primary with what it has received. Nobody else is
// told.
func (r *Node) Promote(ctx context.Context) error {
	return r.Wrap("promote", r.command(func(c *redis.Client) error { return c.ReplicaOf(ctx, "NO", "ONE").Err() }))
}

// FailOver has a primary and its replica exchange roles, and returns when they
// have. Writes wait meanwhile; none that was acknowledged is lost. Afterwards
// this server refuses them (READONLY).
func (r *Node) FailOver(ctx context.Context) error {
	return r.Wrap("fail over", r.command(func(c *redis.Client) error {
		// Without a limit the server would try, and hold back writes, for ever.
		if err := c.Do(ctx, "FAILOVER", "TIMEOUT", lifecycle.StartTimeout.Milliseconds()).Err(); err != nil {
			return err
		}
		err := lifecycle.Await(ctx, func(ctx context.Context) error {
			state, err := replication(ctx, c)
			if err == nil && state["role"] == "master" && state["master_failover_state"] == "no-failover" {
				return lifecycle.Hopeless(errors.New("the server has given it up"))
			}
			return errors.Join(err, linked(ctx, c))
		})
		if err != nil && ctx.Err() != nil {
			err = errors.Join(err, c.Do(context.WithoutCancel(ctx), "FAILOVER", "ABORT").Err())
		}
		return err
	}))
}

// command connects for as long as do takes.
func (r *Node) command(do func(*redis.Client) error) error {
	c := redis.NewClient(&redis.Options{Addr: lifecycle.Loopback(r.port), MaxRetries: -1, DialTimeout: lifecycle.ProbeTimeout, ReadTimeout: lifecycle.ProbeTimeout})
	return errors.Join(do(c), c.Close())
}

// replication is what the server says of its role.
func replication(ctx context.Context, c *redis.Client) (map[string]string, error) {
	info, err := c.InfoMap(ctx, "replication").Result()
	if err != nil {
		return nil, err
	}
	return info["Replication"], nil
}

// linked returns nil once the server is a replica that receives what its
// primary does.
func linked(ctx context.Context, c *redis.Client) error {
	state, err := replication(ctx, c)
	if err != nil {
		return err
	}
	if state["role"] != "slave" || state["master_link_status"] != "up" {
		return fmt.Errorf("it is a %s, link to its primary %q", state["role"], state["master_link_status"])
	}
	return nil
}

// caughtUp returns nil once a replica has come as far as its primary was.
func caughtUp(ctx context.Context, replica *redis.Client, primary string) error {
	want, err := strconv.ParseInt(primary, 10, 64)
	if err != nil {
		return lifecycle.Hopeless(err)
	}
	state, err := replication(ctx, replica)
	if err != nil {
		return err
	}
	have, err := strconv.ParseInt(state["slave_repl_offset"], 10, 64)
	if err == nil && have < want {
		err = fmt.Errorf("it is at offset %d, the primary was at %d", have, want)
	}
	return err
}
