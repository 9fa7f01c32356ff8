// Package telemetry has what a command tells others about itself: metrics and health over HTTP,
// readiness to systemd, and traces to a collector. [Flags] adds the flags to a command that runs
// for long; [OpenTraces] is for every command that handles messages.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/printable"
)

// scrapeMost bounds how many scrapes are answered at a time.
const scrapeMost = 8

// Service is what a command that runs for long tells about itself: metrics and health
// over HTTP, and to systemd.
type Service struct {
	Registry   *prometheus.Registry // has the metrics that are served
	Supervised bool                 // systemd may wait for it, and watch it

	address  string // of --metrics-addr; empty for none
	endpoint endpoint
	listener net.Listener
	log      *slog.Logger
}

// Flags adds --metrics-addr to cmd, and the flags that go with it.
func Flags(cmd *cobra.Command) *Service {
	s := &Service{Registry: prometheus.NewRegistry()}
	cmd.Flags().StringVar(&s.address, "metrics-addr", "", "serve /metrics, /healthz and /readyz at this address, such as 127.0.0.1:9464 or :9464 (default: not at all)")
	s.endpoint.flags(cmd)
	return s
}

// Counts reports whether metrics are served.
func (s *Service) Counts() bool { return s != nil && s.address != "" }

// Listen takes the address, so that a mistake shows before any work begins.
func (s *Service) Listen(ctx context.Context, log *slog.Logger) error {
	s.log = log
	if !s.Counts() {
		return s.endpoint.unused()
	}
	if err := s.endpoint.check(log); err != nil {
		return cli.Usage(err)
	}
	if _, _, err := net.SplitHostPort(s.address); err != nil {
		return cli.Usage(fmt.Errorf("--metrics-addr %q: write HOST:PORT, such as 127.0.0.1:9464, or :PORT for all addresses of this machine", s.address))
	}
	s.Registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	var config net.ListenConfig
	var err error
	s.listener, err = config.Listen(ctx, "tcp", s.address)
	_, wrong := errors.AsType[*net.AddrError](err)
	_, unknown := errors.AsType[*net.DNSError](err)
	switch {
	case wrong || unknown:
		return cli.Usage(fmt.Errorf("--metrics-addr: %w", err))
	case err != nil:
		return fmt.Errorf("--metrics-addr: %w; choose an address of this machine, and a port that is free", err)
	}
	return nil
}

// Serve answers, and tells systemd, until the returned function is called. check says what
// is not as it should be; ctx ends when the command is asked to stop.
func (s *Service) Serve(ctx context.Context, check func(context.Context) error) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	notified := make(chan struct{})
	go func() {
		defer close(notified)
		if s.Supervised {
			notifySystemd(ctx, check, s.log)
		}
	}()
	if s.listener == nil {
		return func() { stop(); <-notified }
	}
	server := s.endpoint.serverOf(s.routes(&probe{check: check}))
	server.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	s.log.Info("serving metrics and health", "address", s.listener.Addr().String())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		serve := server.Serve
		if s.endpoint.encrypted() {
			serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
		}
		if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("metrics and health are served no longer", "error", err)
		}
	}()
	return func() {
		stop()
		<-notified
		_ = server.Close()
		<-ended
	}
}

func (s *Service) routes(ready *probe) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.endpoint.trusted(promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapeMost, ErrorHandling: promhttp.ContinueOnError,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn), Registry: s.Registry,
	})))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		err := ready.ask()
		switch {
		case err == nil:
			answer(w, http.StatusOK, "ready")
		case s.endpoint.trusts(r):
			answer(w, http.StatusServiceUnavailable, "not ready", printable.Error(err))
		default:
			answer(w, http.StatusServiceUnavailable, "not ready")
		}
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "delaybridge", "/metrics", "/healthz", "/readyz")
	})
	return mux
}

func answer(w http.ResponseWriter, code int, lines ...string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(strings.Join(lines, "\n") + "\n"))
}
