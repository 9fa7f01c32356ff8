// Package usage tells what the servers that a measurement has started cost: time
// on processors and memory, by what each is for.
package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What a process is accounted as.
const (
	RabbitMQ   = "rabbitmq"
	Redis      = "redis"
	PostgreSQL = "postgresql"
	Bridge     = "bridge"
	Client     = "client" // this process: publisher and consumers
	Others     = "others" // whatever else runs on the machine and spoils the figures
)

// BridgeProgram is the name of the bridge's program.
const BridgeProgram = "delaybridge"

// known are the programs that say what a process tree is for.
func known(program string) (string, bool) {
	switch program {
	case "beam.smp":
		return RabbitMQ, true
	case "redis-server":
		return Redis, true
	case "postgres":
		return PostgreSQL, true
	case BridgeProgram:
		return Bridge, true
	}
	return "", false
}

// process is what the kernel says about one.
type process struct {
	pid, parent int
	program     string
	ticks       float64 // processor time, with that of children that have ended
	pages       float64 // resident
}

// clockTicks is how many make a second: a constant of the interface, whatever
// the kernel's own.
const clockTicks = 100

// readProcess parses /proc/PID/stat, in which the program's name may hold
// spaces and parentheses; what follows the last one is numbers.
func readProcess(path string) (process, error) {
	content, err := os.ReadFile(path) //nolint:gosec // of /proc
	if err != nil {
		return process{}, err
	}
	stat := string(content)
	opens, closes := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if opens < 0 || closes < opens {
		return process{}, fmt.Errorf("%s is not as expected", path)
	}
	fields := strings.Fields(stat[closes+1:]) // of proc(5), from the third on
	number := func(field int) float64 {
		n, _ := strconv.ParseFloat(fields[field-3], 64)
		return n
	}
	pid, err := strconv.Atoi(strings.TrimSpace(stat[:opens]))
	if err != nil || len(fields) < 22 {
		return process{}, fmt.Errorf("%s is not as expected", path)
	}
	p := process{pid: pid, parent: int(number(4)), program: stat[opens+1 : closes], pages: number(24)}
	for field := 14; field <= 17; field++ { // utime, stime, cutime, cstime
		p.ticks += number(field)
	}
	return p, nil
}

// serverProcesses finds what this process has started, by what it is for. Each
// of our children is the root of one server's tree.
func serverProcesses() (map[string][]process, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]process{}
	for _, path := range paths {
		if p, err := readProcess(path); err == nil { // or it has ended
			children[p.parent] = append(children[p.parent], p)
		}
	}
	found := map[string][]process{}
	for _, root := range children[os.Getpid()] {
		tree := []process{root}
		for i := 0; i < len(tree); i++ {
			tree = append(tree, children[tree[i].pid]...)
		}
		for _, p := range tree {
			if what, ok := known(p.program); ok {
				found[what] = append(found[what], tree...)
				break
			}
		}
	}
	return found, nil
}

// ProcessorTime is the seconds each server has used so far, and this process.
func ProcessorTime() (map[string]float64, error) {
	found, err := serverProcesses()
	if err != nil {
		return nil, err
	}
	seconds := map[string]float64{}
	for what, tree := range found {
		for _, p := range tree {
			seconds[what] += p.ticks / clockTicks
		}
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return nil, os.NewSyscallError("getrusage", err)
	}
	seconds[Client] = time.Duration(own.Utime.Nano() + own.Stime.Nano()).Seconds()
	all, err := machineTime()
	for _, known := range seconds {
		all -= known
	}
	seconds[Others] = all
	return seconds, err
}

// machineTime is the seconds all processors have been busy since the machine was
// started.
func machineTime() (float64, error) {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(content), "\n")
	var seconds float64
	for i, field := range strings.Fields(line)[1:] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, err
		}
		// Of proc(5): not idle, not waiting for a disk, and guests only once.
		if i != 3 && i != 4 && i < 8 {
			seconds += ticks / clockTicks
		}
	}
	return seconds, nil
}

// Resident is the resident memory of one server, in bytes.
func Resident(what string) (float64, error) {
	found, err := serverProcesses()
	if err != nil {
		return 0, err
	}
	var bytes float64
	for _, p := range found[what] {
		bytes += p.pages * float64(os.Getpagesize())
	}
	if bytes == 0 {
		return 0, fmt.Errorf("no process of %s found", what)
	}
	return bytes, nil
}

// Since is what was used between two readings.
func Since(before, after map[string]float64) map[string]float64 {
	used := map[string]float64{}
	for what, value := range after {
		used[what] = value - before[what]
	}
	return used
}
