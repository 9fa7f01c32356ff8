package main

import (
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

// A mistake ends the command with the variable's name and what to write.
func TestWrongVariablesOfTraces(t *testing.T) {
	t.Parallel()
	for variable, test := range map[string]struct{ value, want string }{
		"OTEL_TRACES_EXPORTER":               {"zipkin", "use otlp, console, none"},
		"OTEL_EXPORTER_OTLP_PROTOCOL":        {"http/json", "use grpc, http/protobuf"},
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": {"udp", "use grpc, http/protobuf"},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": {"collector:4317", "want http://host:4318"},
		"OTEL_TRACES_SAMPLER":                {"some", "use always_on"},
	} {
		env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
		env[variable] = test.value
		code, _, said := runIn(t, env, "bridge")
		if code != cli.ExitUsage || !strings.Contains(said, variable) || !strings.Contains(said, test.want) {
			t.Errorf("%s=%s: exit code %d and %q, want 2 and %q", variable, test.value, code, said, test.want)
		}
	}
	code, _, said := runIn(t, map[string]string{
		"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "half",
	}, "bridge")
	if code != cli.ExitUsage || !strings.Contains(said, `OTEL_TRACES_SAMPLER_ARG "half": want a share from 0 to 1`) {
		t.Errorf("exit code %d and %q", code, said)
	}
}
