package telemetry

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/secretfile"
)

const (
	// serveRead bounds how long a client may take to send its request, serveWrite how long the answer
	// may take, and serveIdle how long a connection is kept between two requests.
	serveRead  = 5 * time.Second
	serveWrite = 30 * time.Second
	serveIdle  = 2 * time.Minute
	// serveHeaders bounds the headers of a request, in bytes.
	serveHeaders = 16 << 10
)

// endpoint says who may ask for metrics and health, and how. Its files are read for each connection and
// request, so that they can be replaced.
type endpoint struct{ certFile, keyFile, tokenFile string }

func (e *endpoint) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.certFile, "metrics-cert-file", "", "serve over TLS, with the certificate in this PEM file")
	cmd.Flags().StringVar(&e.keyFile, "metrics-key-file", "", "PEM file with the key of --metrics-cert-file")
	cmd.Flags().StringVar(&e.tokenFile, "metrics-token-file", "", "serve metrics, and the reasons of /readyz, to those alone who send the only line of this file as a bearer token")
}

func (e *endpoint) encrypted() bool { return e.certFile != "" }

// unused returns an error where something is said of what is not served.
func (e *endpoint) unused() error {
	if *e != (endpoint{}) {
		return cli.Usage(errors.New("--metrics-cert-file, --metrics-key-file and --metrics-token-file mean nothing without --metrics-addr: give that, too"))
	}
	return nil
}

// check reads the files once, so that a mistake shows at the start.
func (e *endpoint) check(log *slog.Logger) error {
	if (e.certFile == "") != (e.keyFile == "") {
		return errors.New("--metrics-cert-file and --metrics-key-file: give both, or neither")
	}
	if e.encrypted() {
		if _, err := e.certificate(nil); err != nil {
			return err
		}
	}
	if e.tokenFile != "" {
		if _, err := secretfile.Read(e.tokenFile); err != nil {
			return fmt.Errorf("--metrics-token-file: %w", err)
		}
	}
	for _, secret := range []string{e.keyFile, e.tokenFile} {
		if secret != "" && secretfile.Exposed(secret, os.Getenv(secretfile.CredentialsVariable)) {
			secretfile.Warn(log, secret)
		}
	}
	return nil
}

func (e *endpoint) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(e.certFile, e.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--metrics-cert-file %s, --metrics-key-file %s: %w", e.certFile, e.keyFile, err)
	}
	return &pair, nil
}

// serverOf returns a server whose clients cannot keep it waiting.
func (e *endpoint) serverOf(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler: handler, ReadTimeout: serveRead, WriteTimeout: serveWrite, IdleTimeout: serveIdle, MaxHeaderBytes: serveHeaders,
	}
	if e.encrypted() {
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: e.certificate}
	}
	return server
}

// trusts reports whether a request has the token, or none is needed.
func (e *endpoint) trusts(r *http.Request) bool {
	if e.tokenFile == "" {
		return true
	}
	want, err := secretfile.Read(e.tokenFile)
	got, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return err == nil && bearer && subtle.ConstantTimeCompare([]byte(got), []byte(want)) == 1
}

// trusted serves what next does to those alone who have the token.
func (e *endpoint) trusted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !e.trusts(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, "send the token as Authorization: Bearer")
			return
		}
		next.ServeHTTP(w, r)
	})
}

const (
	// probeFresh is how long what a check has found is the answer to all who ask.
	probeFresh = time.Second
	// probeWithin is how long a check may take.
	probeWithin = 10 * time.Second
)

// probe keeps what a check has found. However many ask, there is one check at a time, and one a second.
type probe struct {
	check func(context.Context) error

	mu  sync.Mutex
	at  time.Time
	err error
}

func (p *probe) ask() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) >= probeFresh {
		ctx, cancel := context.WithTimeout(context.Background(), probeWithin) // who asks may hang up
		p.err = p.check(ctx)
		cancel()
		p.at = time.Now()
	}
	return p.err
}
