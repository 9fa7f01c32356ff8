package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers"
)

// bridgeProgram is a bridge in a process of its own, as people run it.
type bridgeProgram struct {
	*servers.Program
	name   string
	log    *os.File
	killed bool
}

// startBridge builds delaybridge on first use.
func (s *suite) startBridge(ctx context.Context, site *site, name string) (*bridgeProgram, error) {
	if s.program == "" {
		program := filepath.Join(s.dir, "delaybridge")
		build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/delaybridge/delaybridge/cmd/delaybridge")
		if said, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build delaybridge: %w\n%s", err, said)
		}
		s.program = program
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.program, "bridge", "--name", name)
	cmd.Env = append(os.Environ(),
		"DELAYBRIDGE_AMQP_URL="+site.RabbitMQ.AMQPURL(), "DELAYBRIDGE_REDIS_URL="+site.Redis.URL(),
		"DELAYBRIDGE_PREFIX="+site.Topology.Prefix())
	cmd.Stdout, cmd.Stderr = log, log
	program, err := servers.Spawn(cmd)
	if err != nil {
		return nil, err
	}
	b := &bridgeProgram{Program: program, name: name, log: log}
	return b, b.awaitStart(ctx, site)
}

// awaitStart waits until the bridge has its share of the shards, which it has
// from then on.
func (b *bridgeProgram) awaitStart(ctx context.Context, site *site) error {
	for range 200 {
		select {
		case <-b.Exited():
			said, _ := os.ReadFile(b.log.Name())
			return fmt.Errorf("the bridge has ended: %s", said)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		owners, err := site.owners(ctx)
		if err != nil {
			return err
		}
		for owner := range owners {
			if strings.HasPrefix(owner, b.name+"-") {
				return nil
			}
		}
	}
	return errors.New("the bridge owns no shard")
}

func (b *bridgeProgram) stop() error {
	err := b.Stop(30 * time.Second)
	_ = b.log.Close()
	if b.killed {
		return nil // that is how it has ended
	}
	return err
}

// peakMB is the largest amount of memory that the process has had resident.
func (b *bridgeProgram) peakMB() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.Pid()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kB / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", b.Pid())
}

// cpu is the time that the process has spent on processors.
func (b *bridgeProgram) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.Pid()))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before may hold anything
	fields := strings.Fields(rest)
	var ticks int64
	for _, field := range fields[11:13] { // utime, stime: proc(5)
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // USER_HZ is 100
}

func (b *bridgeProgram) kill() error {
	if err := b.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-b.Exited()
	b.killed = true
	return nil
}
