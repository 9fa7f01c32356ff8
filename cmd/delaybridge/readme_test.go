package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

// repository is the root, seen from this package.
const repository = "../.."

// readmeBlock is the lines of one command block.
type readmeBlock []string

// readmeBlocks returns the command blocks of README.md, by their first line: what is indented
// by four spaces, and fenced blocks that are for a shell.
func readmeBlocks(t *testing.T) map[string]readmeBlock {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]readmeBlock{}
	var block readmeBlock
	var fence string // the opening of the block we are in, or empty
	end := func() {
		if len(block) > 0 {
			blocks[block[0]] = block
		}
		block = nil
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		command, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			if fence == "" {
				fence = line
			} else {
				fence = ""
			}
		case fence == "```", fence == "```go": // a picture, and a program
		case fence != "":
			block = append(block, line)
		case indented:
			block = append(block, command)
		case line != "": // an empty line does not end a block
			end()
		}
	}
	end()
	return blocks
}

// What starts servers of its own, or runs all tests, is run elsewhere: by .ci/run, as its
// steps are called, or by a test.
func coveredElsewhere() map[string]string {
	return map[string]string{
		"make demo":                  "step demo, and examples/demo",
		"make test":                  "steps tests on ...",
		"make test-clusters":         "steps parking and consuming on Redis Cluster",
		"make lint":                  "step lint",
		"make fault":                 "step fault, and internal/fault",
		"make bench":                 "bench",
		"make bench-scale":           "bench",
		"make bench-compare":         "bench/compare",
		"docker compose up --detach": "step release",
		"docker compose --profile consumer up --detach":                                            "step release",
		"docker compose exec bridge delaybridge publish --id order-1 --key order.unpaid --in 7.3s": "step release",
	}
}

// The first lines of the blocks that are run here.
const (
	readmeSession    = `eval "$(make -s up)"                 # servers, topology and a bridge, in the background`
	readmeProduction = `delaybridge topology plan      # what would be created`
)

// Each block is run here, or known to be covered elsewhere. A new one has to be dealt with.
func TestReadmeBlocksAreKnown(t *testing.T) {
	t.Parallel()
	blocks := readmeBlocks(t)
	for _, first := range []string{readmeSession, readmeProduction} {
		if blocks[first] == nil {
			t.Errorf("no block of README.md begins with %q", first)
		}
		delete(blocks, first)
	}
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		for _, line := range block {
			command, _, _ := strings.Cut(line, "#")
			command = strings.TrimSpace(command)
			target, isMake := strings.CutPrefix(command, "make ")
			if command != "" && coveredElsewhere()[command] == "" {
				t.Errorf("README.md: no test runs %q", line)
			}
			if isMake && !regexp.MustCompile(`(?m)^`+target+`: .*##`).Match(makefile) {
				t.Errorf("README.md: %q: the Makefile has no such target", line)
			}
		}
	}
}

// readmeShell runs a block's lines on a terminal in a folder that looks like a checkout after
// `make build`, with the settings of a newcomer: the defaults. `make` there gives out the
// test's servers in place of starting some.
type readmeShell struct {
	t     *testing.T
	dir   string
	env   []string
	codes string // the file with the exit code of each command
}

func newReadmeShell(t *testing.T) *readmeShell {
	t.Helper()
	vars := scriptEnv(t)
	s := &readmeShell{t: t, dir: t.TempDir()}
	s.codes = filepath.Join(s.dir, "codes")
	var addresses strings.Builder
	s.env = []string{
		"HOME=" + s.dir, "TERM=xterm-256color",
		"PATH=" + filepath.Join(s.dir, "tools") + ":" + program(t) + ":" + os.Getenv("PATH"),
	}
	for _, name := range []string{"DELAYBRIDGE_AMQP_URL", "DELAYBRIDGE_MANAGEMENT_URL", "DELAYBRIDGE_REDIS_URL"} {
		s.env = append(s.env, name+"="+vars[name])
		fmt.Fprintf(&addresses, "export %s='%s'\n", name, vars[name])
	}
	for _, name := range []string{beDelaybridge, "GORACE", "DELAYBRIDGE_PREFIX"} {
		s.env = append(s.env, name+"="+vars[name])
	}
	s.write("tools/make", "#!/bin/sh\ncase \"$*\" in\n'-s up') cat '"+filepath.Join(s.dir, "addresses")+"' ;;\ndown) ;;\n*) exit 2 ;;\nesac\n")
	s.write("addresses", addresses.String())
	s.write("bin/delaybridge", fmt.Sprintf("#!/bin/sh\n'%s' \"$@\"\ncode=$?\necho \"$code $*\" >>'%s'\nexit $code\n",
		filepath.Join(program(t), "delaybridge"), s.codes))
	return s
}

func (s *readmeShell) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// command is a line for a shell of the user's.
func (s *readmeShell) command(line string) *exec.Cmd {
	cmd := exec.Command("bash", "-ec", line)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// bridge starts one by the given line, and returns, once the bridge is alive, what ends it
// with SIGTERM.
func (s *readmeShell) bridge(line string) (stop func()) {
	s.t.Helper()
	var log bytes.Buffer
	cmd := s.command("exec " + line) // so that the signal reaches it
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("%s: %v\n%s", line, err, log.String())
		}
	}
	for began := time.Now(); ; <-time.After(100 * time.Millisecond) {
		out, err := s.command("delaybridge top --once --interval 200ms").CombinedOutput()
		if err == nil && !strings.Contains(string(out), "no bridge is alive") {
			return stop
		}
		if time.Since(began) > time.Minute {
			stop()
			s.t.Fatalf("%s: no bridge is alive (%v)\n%s\n%s", line, err, out, log.String())
		}
	}
}

// marker precedes what a line prints. No command prints it.
const marker = "\x1e"

// run runs the lines with bash -e on a terminal, and returns what each printed. press is given
// the line that the shell is at and what it has printed, and returns keys to press, once.
func (s *readmeShell) run(lines []string, press func(line, printed string) string) []string {
	s.t.Helper()
	var script strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&script, "printf '\\036'\n%s\n", line)
	}
	s.write("session.sh", script.String())
	cmd := exec.Command("bash", "-e", "session.sh")
	cmd.Dir, cmd.Env = s.dir, s.env
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 200, Rows: 50})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = terminal.Close() }()
	overdue := time.AfterFunc(2*time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer overdue.Stop()

	var all strings.Builder
	var pressed int // markers that were seen when a key was pressed
	buffer := make([]byte, 1<<14)
	for {
		n, err := terminal.Read(buffer)
		all.Write(buffer[:n])
		parts := strings.Split(all.String(), marker)[1:]
		if at := len(parts); at > pressed {
			if keys := press(lines[at-1], parts[at-1]); keys != "" {
				pressed = at
				if _, err := io.WriteString(terminal, keys); err != nil {
					s.t.Fatal(err)
				}
			}
		}
		if err != nil {
			break // the shell has closed its side
		}
	}
	if err := cmd.Wait(); err != nil {
		s.t.Fatalf("bash: %v\n%s", err, all.String())
	}
	parts := strings.Split(strings.ReplaceAll(all.String(), "\r\n", "\n"), marker)[1:]
	if len(parts) != len(lines) {
		s.t.Fatalf("%d of %d lines were run\n%s", len(parts), len(lines), all.String())
	}
	return parts
}

// exits checks that all commands of bin have ended with 0.
func (s *readmeShell) exits() {
	s.t.Helper()
	text, err := os.ReadFile(s.codes)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		code, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		if code != "0" {
			s.t.Errorf("%s: exit code %s", command, code)
		}
	}
}

// TestReadmeSession types what README.md has a newcomer type, and looks whether it is as the
// comments say.
func TestReadmeSession(t *testing.T) {
	t.Parallel()
	s := newReadmeShell(t)
	if out, err := s.command("delaybridge topology apply").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer s.bridge("delaybridge bridge")()
	// What the comments speak of, beside the lines themselves.
	also := map[string][]string{
		"delaybridge list":           {"delaybridge get order-2", "delaybridge stats"},
		"delaybridge cancel order-2": {"delaybridge cancel order-2"},
	}
	type expected struct {
		prints []string // regular expressions
		seen   bool
	}
	want := map[string]*expected{
		"delaybridge consume": {},
		"delaybridge publish --id order-1 --key order.unpaid --in 7.3s": {prints: []string{`order-1 +order\.unpaid +parked`}},
		"wait": {prints: []string{`(?m)^order-1 +order\.unpaid .*acknowledged +close me$`}},
		"delaybridge publish --id order-2 --key order.unpaid --in 1h": {prints: []string{`order-2 +order\.unpaid +parked`}},
		"delaybridge list":                  {prints: []string{`order-2 +parked`}},
		"delaybridge get order-2":           {prints: []string{`(?m)^STATE +parked$`, `(?m)^WHERE +in Redis`}},
		"delaybridge stats":                 {prints: []string{`(?m)^parked +1$`}},
		"delaybridge reschedule order-2":    {prints: []string{`order-2 +rescheduled, due `}},
		"delaybridge cancel order-2":        {prints: []string{`(?m)^order-2 +cancelled$`}},
		"delaybridge cancel order-2, again": {prints: []string{`(?m)^order-2 +cancelled before`}},
		"delaybridge top":                   {prints: []string{`SHARD`, `no problems`}},
	}
	var lines, names []string
	for _, line := range readmeBlocks(t)[readmeSession] {
		command, _, _ := strings.Cut(line, " #")
		command = strings.TrimSpace(command)
		if command == "" {
			continue
		}
		lines, names = append(lines, line), append(names, command)
		for _, more := range also[command] {
			name := more
			if more == command {
				name += ", again"
			}
			lines, names = append(lines, more), append(names, name)
		}
	}
	printed := s.run(lines, func(line, printed string) string {
		if strings.HasPrefix(line, "delaybridge top") && strings.Contains(printed, "SHARD") && strings.Contains(printed, "no problems") {
			return "q"
		}
		return ""
	})
	for i, name := range names {
		// The longest that it begins with is meant.
		key := ""
		for prefix := range want {
			if strings.HasPrefix(name, prefix) && len(prefix) > len(key) {
				key = prefix
			}
		}
		if key == "" {
			if !slices.Contains([]string{"make down", "export PATH=$PWD/bin:$PATH", `eval "$(make -s up)"`}, name) {
				t.Errorf("README.md: the test does not know what to expect of %q", name)
			}
			continue
		}
		want[key].seen = true
		for _, expression := range want[key].prints {
			if !regexp.MustCompile(expression).MatchString(printed[i]) {
				t.Errorf("%q has printed\n%s\nwant %s", name, printed[i], expression)
			}
		}
	}
	for name, e := range want {
		if !e.seen {
			t.Errorf("README.md has no line %q", name)
		}
	}
	s.exits()
}

// TestReadmeProduction runs what README.md has an operator run.
func TestReadmeProduction(t *testing.T) {
	t.Parallel()
	s := newReadmeShell(t)
	check := func(line string, codes []int, expressions ...string) {
		t.Helper()
		cmd := s.command(line)
		out, err := cmd.CombinedOutput()
		if !slices.Contains(codes, cmd.ProcessState.ExitCode()) {
			t.Errorf("%s: exit code %d (%v), want one of %v\n%s", line, cmd.ProcessState.ExitCode(), err, codes, out)
		}
		for _, expression := range expressions {
			if !regexp.MustCompile(expression).Match(out) {
				t.Errorf("%q has printed\n%s\nwant %s", line, out, expression)
			}
		}
	}
	for _, line := range readmeBlocks(t)[readmeProduction] {
		command, _, _ := strings.Cut(line, "#")
		switch command = strings.TrimSpace(command); command {
		case "delaybridge topology plan":
			check(line, []int{cli.ExitOK}, `queue .*\.tier\.30m`, `exchange .*\.ready`)
		case "delaybridge topology apply":
			check("delaybridge topology verify", []int{cli.ExitDrift})
			check(line, []int{cli.ExitOK})
			check(line, []int{cli.ExitOK}) // safe to repeat
		case "delaybridge topology verify":
			check(line, []int{cli.ExitOK})
		case "delaybridge bridge":
			defer s.bridge(line)()
		case "delaybridge doctor":
			// What it finds is the servers': the tests' user may do anything, say.
			check(line, []int{cli.ExitOK, cli.ExitDrift}, `\[ok\] topology and policies`, `\[..\] bridges and leases`)
			out, _ := s.command("delaybridge doctor -o json").Output()
			if bytes.Contains(out, []byte(`"no-bridge"`)) {
				t.Errorf("README.md has the doctor run where it finds that there is no bridge:\n%s", out)
			}
		default:
			t.Errorf("README.md: no test runs %q", line)
		}
	}
}
