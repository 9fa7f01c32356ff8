package cli_test

import (
	"errors"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli/clitest"
)

func FuzzLoggersSayNothingRaw(f *testing.F) {
	clitest.FuzzPrints(f, nil, map[string]clitest.Say{
		"log": func(a *cli.App, text string) {
			a.Logger(cli.Config{LogFormat: "text"}).Warn("heard", "id", text, "error", errors.New(text), "keys", []string{text})
		},
		"log in JSON": func(a *cli.App, text string) {
			a.Logger(cli.Config{LogFormat: "json"}).Warn("heard", "id", text, "error", errors.New(text), "keys", []string{text})
		},
	})
}
