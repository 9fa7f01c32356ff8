package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/message/sampling"
)

// flushTimeout is how long a command waits, when it ends, for its last spans to be sent.
const flushTimeout = 3 * time.Second

// OpenTraces returns what makes spans, and what sends the last of them, as OpenTelemetry's
// environment variables say. Where they name no destination the provider is nil: nothing
// is traced, and nothing runs.
func OpenTraces(ctx context.Context, a *cli.App, command string, log *slog.Logger) (trace.TracerProvider, func(), error) {
	env := otelEnv(a.Settings.LookupEnv)
	if !env.on() {
		return nil, func() {}, nil
	}
	if err := env.check(); err != nil {
		return nil, nil, cli.Usage(err)
	}
	// What the library would write by itself has addresses and headers in it as they are
	// in the environment, with their secrets. What matters of it env.check has told.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Debug("traces", "error", err) }))
	exporter, err := openExporter(ctx, a, env)
	if err != nil {
		return nil, nil, cli.Usage(fmt.Errorf("traces: %w", err))
	}
	who, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("delaybridge-"+command), semconv.ServiceVersion(cli.Version())),
		resource.WithTelemetrySDK(), resource.WithFromEnv(), // the last one wins
	)
	if err != nil {
		return nil, nil, cli.Usage(fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err))
	}
	sampler, err := env.sampler()
	if err != nil {
		return nil, nil, cli.Usage(err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&toldExporter{SpanExporter: exporter, log: log}),
		sdktrace.WithResource(who), sdktrace.WithSampler(sampling.FollowLinks(sampler)),
	)
	return provider, func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		_ = provider.Shutdown(flush) // toldExporter has said what is wrong
	}, nil
}

func openExporter(ctx context.Context, a *cli.App, env otelEnv) (sdktrace.SpanExporter, error) {
	switch {
	case env.exporter() == "console":
		return stdouttrace.New(stdouttrace.WithWriter(a.Err))
	case env.protocol() == "grpc":
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// toldExporter logs when spans cannot be sent, and when they can again.
type toldExporter struct {
	sdktrace.SpanExporter
	log    *slog.Logger
	failed atomic.Bool
}

// ExportSpans sends spans. Those that cannot be sent are lost.
func (e *toldExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !e.failed.Swap(true):
		e.log.Warn("traces cannot be sent, and are lost meanwhile", "error", err)
	case err == nil && e.failed.Swap(false):
		e.log.Info("traces are sent again")
	}
	return err
}

// otelEnv reads OpenTelemetry's environment variables.
type otelEnv func(string) (string, bool)

// first returns the first of these variables that is set to anything, and its value.
func (env otelEnv) first(names ...string) (name, value string) {
	for _, name := range names {
		if value, _ := env(name); strings.TrimSpace(value) != "" {
			return name, strings.TrimSpace(value)
		}
	}
	return "", ""
}

func (env otelEnv) exporter() string {
	_, exporter := env.first("OTEL_TRACES_EXPORTER")
	return exporter
}

func (env otelEnv) protocol() string {
	_, protocol := env.first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	return protocol
}

func endpointVariables() []string {
	return []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}
}

// on reports whether spans have a destination. OpenTelemetry's default, a collector on
// this machine, has to be asked for by its name, otlp.
func (env otelEnv) on() bool {
	if _, disabled := env.first("OTEL_SDK_DISABLED"); strings.EqualFold(disabled, "true") {
		return false
	}
	if exporter := env.exporter(); exporter != "" {
		return exporter != "none"
	}
	_, endpoint := env.first(endpointVariables()...)
	return endpoint != ""
}

// check finds what the library would pass over, or report with its value.
func (env otelEnv) check() error {
	var faults []error
	for _, choice := range []struct {
		names []string
		known []string
	}{
		{[]string{"OTEL_TRACES_EXPORTER"}, []string{"otlp", "console", "none"}},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"}, []string{"grpc", "http/protobuf"}},
	} {
		if name, value := env.first(choice.names...); value != "" && !slices.Contains(choice.known, value) {
			faults = append(faults, fmt.Errorf("%s %q: use %s", name, value, strings.Join(choice.known, ", ")))
		}
	}
	for _, name := range endpointVariables() {
		_, value := env.first(name)
		if value == "" {
			continue
		}
		u, err := url.Parse(value)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			faults = append(faults, fmt.Errorf("%s: want http://host:4318 or https://host:4318; with OTEL_EXPORTER_OTLP_PROTOCOL=grpc the port usually is 4317", name))
		}
	}
	return errors.Join(faults...)
}

// sampler is the SDK's default and the others that it knows. The SDK keeps its own way to
// find it to itself.
func (env otelEnv) sampler() (sdktrace.Sampler, error) {
	_, name := env.first("OTEL_TRACES_SAMPLER")
	ratio := 1.0
	if variable, text := env.first("OTEL_TRACES_SAMPLER_ARG"); strings.HasSuffix(name, "traceidratio") && text != "" {
		var err error
		if ratio, err = strconv.ParseFloat(text, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			return nil, fmt.Errorf("%s %q: want a share from 0 to 1", variable, text)
		}
	}
	switch name {
	case "", "parentbased_always_on":
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case "parentbased_traceidratio":
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio)), nil
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(ratio), nil
	}
	return nil, fmt.Errorf("OTEL_TRACES_SAMPLER %q: use always_on, always_off, traceidratio, or one of these after parentbased_", name)
}
