package telemetry

import (
	"io"
	"log/slog"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

// openTracesWith opens traces with these variables and no others.
func openTracesWith(t *testing.T, env map[string]string) (on bool, err error) {
	t.Helper()
	a := &cli.App{Streams: cli.Streams{Err: io.Discard}, Settings: cli.NewSettings(func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})}
	provider, flush, err := OpenTraces(t.Context(), a, "bridge", slog.New(slog.DiscardHandler))
	if err == nil {
		flush()
	}
	return provider != nil, err
}

// Only a destination switches traces on; without one there is no exporter, and none of
// its goroutines (TestMain looks for those that are left).
func TestTracesAreOffUnlessTheyHaveADestination(t *testing.T) { //nolint:paralleltest // the SDK's logger is the process's
	const address = "http://127.0.0.1:1"
	for name, test := range map[string]struct {
		env map[string]string
		on  bool
	}{
		"nothing":            {nil, false},
		"empty":              {map[string]string{"OTEL_TRACES_EXPORTER": "", "OTEL_EXPORTER_OTLP_ENDPOINT": " "}, false},
		"a name":             {map[string]string{"OTEL_SERVICE_NAME": "orders", "OTEL_TRACES_SAMPLER": "always_on"}, false},
		"an endpoint":        {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": address}, true},
		"one for traces":     {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": address}, true},
		"the default one":    {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		"console":            {map[string]string{"OTEL_TRACES_EXPORTER": "console"}, true},
		"none":               {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": address}, false},
		"disabled":           {map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": address}, false},
		"gRPC, half of them": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"}, true},
	} {
		if on, err := openTracesWith(t, test.env); err != nil || on != test.on {
			t.Errorf("%s: on %v, %v; want %v", name, on, err, test.on)
		}
	}
}
