package telemetry

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/printable"
)

const (
	// awaitReady is how often a service that systemd waits for is looked at until it is
	// ready, and lookAgain how often after that, for the line in systemctl status.
	awaitReady = 200 * time.Millisecond
	lookAgain  = 10 * time.Second
	// checkMost bounds one look.
	checkMost = 5 * time.Second
)

// notifySystemd says when the service is ready, how it is doing and that it stops,
// and keeps the watchdog quiet, where systemd has asked for these. It returns when ctx
// ends.
func notifySystemd(ctx context.Context, check func(context.Context) error, log *slog.Logger) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	say := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn("cannot notify systemd", "error", err)
		}
	}
	defer say(daemon.SdNotifyStopping + "\nSTATUS=finishing what is in flight")
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("systemd's watchdog asks for nonsense", "error", err)
	}
	every, last := awaitReady, ""
	for ready := false; ; {
		status := "ready"
		if err := look(ctx, check); err != nil {
			status = "not ready: " + printable.Text(cli.OneLine(err))
		} else if !ready {
			ready, every = true, lookAgain
			if watchdog > 0 {
				every = min(every, watchdog/3)
			}
			say(daemon.SdNotifyReady)
		}
		if ctx.Err() == nil && status != last {
			last = status
			say("STATUS=" + status)
		}
		// A look takes the locks of all parts: if one of them is stuck, this is, too.
		if watchdog > 0 {
			say(daemon.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

func look(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, checkMost)
	defer cancel()
	return check(ctx)
}
