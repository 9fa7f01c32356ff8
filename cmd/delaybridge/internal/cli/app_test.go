package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestLoggerFollowsTheSettings(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	a := &App{Streams: Streams{Err: &said}}
	a.Logger(Config{LogFormat: "json", LogLevel: 4}).Info("not heard")
	a.Logger(Config{LogFormat: "json", LogLevel: 4}).Warn("heard", "key", "value")
	if got := said.String(); !strings.Contains(got, `"msg":"heard","key":"value"}`) || strings.Contains(got, "not heard") {
		t.Errorf("got %s", got)
	}
	said.Reset()
	a.Logger(Config{LogFormat: "text", LogLevel: 0}).Info("heard", "key", "value")
	if got := said.String(); !strings.Contains(got, `msg=heard key=value`) {
		t.Errorf("got %s", got)
	}
}
