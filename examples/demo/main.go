// Command demo shows the delay bridge at work on real servers: twenty orders are
// placed, some are paid, and the others closed when their time is up, whichever
// path their message takes.
//
// It starts RabbitMQ and Redis for itself, ends within 45 seconds of their being
// up, and leaves nothing behind. The last line on standard output is the
// account; the exit code is 1 where an order was lost, early or closed twice,
// and 130 after Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	exitBroken      = 1
	exitInterrupted = 130
)

func main() { os.Exit(run(os.Stdout, os.Stderr)) }

// run returns the exit code.
func run(out *os.File, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	account, err := demonstrate(ctx, out, errs)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(errs, "demo: interrupted; everything is cleaned up")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(errs, "demo:", err)
		return exitBroken
	}
	fmt.Fprintln(out, account)
	if !account.good() {
		return exitBroken
	}
	return 0
}

// demonstrate gets servers, shows the demo on them and stops them again.
func demonstrate(ctx context.Context, out *os.File, errs io.Writer) (account totals, err error) {
	fmt.Fprintln(errs, "starting RabbitMQ and Redis ...")
	began := time.Now()
	pair, err := servers.StartComposed(ctx, servers.Config{})
	if err != nil {
		return totals{}, err
	}
	// After Ctrl-C too.
	defer func() { err = errors.Join(err, pair.Stop(context.WithoutCancel(ctx))) }()
	fmt.Fprintf(errs, "both are up after %.1f s\n", time.Since(began).Seconds())

	dir, err := os.MkdirTemp("", "delaybridge-demo-")
	if err != nil {
		return totals{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := prepare(ctx, pair.RabbitMQ.AMQPURL(), pair.Redis.URL(), dir, errs)
	if err != nil {
		return totals{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := introduce(out, pair.RabbitMQ.ManagementURL(), s.topology); err != nil {
		return totals{}, err
	}
	return s.play(ctx, out)
}

// introduce says where to look while the demo runs.
func introduce(out io.Writer, managementURL string, t *topology.Topology) error {
	u, err := url.Parse(managementURL)
	if err != nil {
		return err
	}
	tier10, _ := t.Tier(10 * time.Second)
	tier30, _ := t.Tier(30 * time.Second)
	password, _ := u.User.Password()
	user := u.User.Username()
	u.User = nil
	_, err = fmt.Fprintf(out, `
Twenty orders are placed. Each is closed when its time is up, unless it is paid;
+3 ms says how late that was.

  RabbitMQ's management UI   %s/#/queues   user %s, password %s
  queues worth a look        %s   %s   messages with exactly this delay
                             %s   the last 10 s of promoted ones (lane, shard 0)
                             %s   %s   due orders, and what cannot be handled

`, u, user, password,
		tier10.Name, tier30.Name, t.Lane(10*time.Second, 0), queue, t.Quarantine())
	return err
}
