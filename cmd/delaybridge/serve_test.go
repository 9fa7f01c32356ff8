package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// servePatience is how long a test waits for what happens at once on a quiet machine.
const servePatience = 90 * time.Second

// watched is a running program that serves.
type watched struct {
	cmd    *exec.Cmd
	url    string
	output *lines
	ended  chan struct{}
	err    error // read it after ended
}

// lines is what a program writes, while it does.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var serving = regexp.MustCompile(`msg="serving metrics and health" address=(\S+)`)

// startServing runs the program with --metrics-addr and returns once it listens.
func startServing(t *testing.T, vars map[string]string, input io.Reader, arguments ...string) *watched {
	t.Helper()
	w := &watched{
		cmd:    exec.Command(filepath.Join(program(t), "delaybridge"), append(arguments, "--metrics-addr", "127.0.0.1:0")...),
		output: &lines{}, ended: make(chan struct{}),
	}
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = input, w.output, w.output
	w.cmd.Env = os.Environ()
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		w.cmd.Env = append(w.cmd.Env, name+"="+vars[name])
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.ended)
		w.err = w.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.ended
		if t.Failed() {
			t.Logf("%s said:\n%s", strings.Join(arguments, " "), w.output)
		}
	})
	await(t, "the program listens", func() bool {
		found := serving.FindStringSubmatch(w.output.String())
		if found != nil {
			w.url = "http://" + found[1]
		}
		return found != nil || hasEnded(w)
	})
	return w
}

func hasEnded(w *watched) bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// await asks again and again until what is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(servePatience); !so(); {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("waited %v in vain: %s", servePatience, what)
		}
	}
}

// get returns the answer to a request, and 0 where there is none.
func (w *watched) get(t *testing.T, path string) (code int, body string) {
	t.Helper()
	return fetch(t, w.url+path, "", nil)
}

// fetch sends a request, with a token where that is not empty. The code is 0 where there is no answer.
func fetch(t *testing.T, url, token string, config *tls.Config) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

func (w *watched) awaitReady(t *testing.T) {
	t.Helper()
	await(t, "the program is ready", func() bool { code, _ := w.get(t, "/readyz"); return code == http.StatusOK })
}

// stop sends SIGTERM and wants a good end within the given time.
func (w *watched) stop(t *testing.T, within time.Duration) {
	t.Helper()
	began := time.Now()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.ended:
	case <-time.After(within):
		t.Fatalf("still there %v after SIGTERM", within)
	}
	t.Logf("ended after %v", time.Since(began))
	if w.err != nil {
		t.Errorf("ended with %v", w.err)
	}
}

// promtool runs a command of Debian's package prometheus, and installs that first.
func promtool(t *testing.T, stdin string, arguments ...string) {
	t.Helper()
	if err := servers.EnsureClients(t.Context(), map[string]string{"prometheus": "promtool"}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "promtool", arguments...)
	cmd.Stdin, cmd.Dir = strings.NewReader(stdin), filepath.FromSlash(observability)
	if out, err := cmd.CombinedOutput(); err != nil || stdin != "" && len(out) > 0 {
		t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
}

func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "config", "prometheus.yml")
	promtool(t, "", "check", "rules", "alerts.yml")
	promtool(t, "", "test", "rules", "alerts_test.yml", "alerts_day_test.yml")
}

// A bridge, a consumer and a publisher tell what they do, in a form that promtool has
// nothing to say against.
func TestMetricsOfEachCommand(t *testing.T) {
	t.Parallel()
	vars := scriptEnv(t)
	bridge := startServing(t, vars, nil, "bridge")
	bridge.awaitReady(t)
	consume := startServing(t, vars, nil, "consume", "--queue", "closing", "--bind", "order.#")
	consume.awaitReady(t)
	input, output := io.Pipe()
	publish := startServing(t, vars, input, "publish", "--file", "-", "--untracked", "--log-level", "debug")
	t.Cleanup(func() { _ = output.Close() }) // before the program is awaited
	for i := range 20 {
		fmt.Fprintf(output, `{"id":"m-%d","key":"order.unpaid","in":"5s"}`+"\n", i)
	}
	fmt.Fprintln(output, `{"id":"tier","key":"order.unpaid","in":"1s"}`)
	fmt.Fprintln(output, `{"id":"later","key":"order.unpaid","in":"1h"}`)
	fmt.Fprintln(output, `{"id":"nobody","key":"nobody","in":"1s"}`)

	prefix := `prefix="` + vars["DELAYBRIDGE_PREFIX"] + `"`
	for _, tc := range []struct {
		of    *watched
		wants []string
	}{
		{publish, []string{
			"producer_ready{PREFIX} 1", `producer_publishes_total{outcome="published",path="parked",PREFIX} 21`,
			`producer_publishes_total{outcome="published",path="tier 1s",PREFIX} 2`, `producer_publish_duration_seconds_count{path="tier 1s",PREFIX} 2`,
		}},
		{consume, []string{
			`consumer_ready{PREFIX,queue="closing"} 1`, `consumer_messages_total{outcome="acknowledged",PREFIX,queue="closing"} 21`,
			`consumer_lateness_seconds_count{path="lane",PREFIX,queue="closing"} 20`, `consumer_lateness_seconds_count{path="tier",PREFIX,queue="closing"} 1`,
			`consumer_lateness_seconds_bucket{path="lane",PREFIX,queue="closing",le="0"} 0`,
			`consumer_early_total{PREFIX,queue="closing"} 0`, `consumer_handler_duration_seconds_count{PREFIX,queue="closing"} 21`,
		}},
		{bridge, []string{
			"bridge_ready{PREFIX} 1", "bridge_shards{PREFIX} 1", "bridges_alive{PREFIX} 1", `shard_owned{PREFIX,shard="0"} 1`,
			"bridge_claims_total{PREFIX} 20", `bridge_promotions_total{path="lane 1s",PREFIX} 20`, "bridge_settles_total{PREFIX} 20",
			`bridge_confirm_duration_seconds_count{answer="confirmed",PREFIX} 20`,
			`parked_messages{PREFIX,shard="0"} 1`, "unrouted_messages{PREFIX} 1", "quarantine_messages{PREFIX} 0", "inbox_messages{PREFIX} 0",
			`tier_ttl_seconds{PREFIX,tier="30s"} 30`, `redis_setting_safe{PREFIX,setting="appendonly"} 1`,
			`oldest_overdue_seconds{PREFIX,shard="0"} 0`, `collect_failures_total{PREFIX,source="rabbitmq"} 0`,
			`bridge_removed_total{PREFIX,queue="` + vars["DELAYBRIDGE_PREFIX"] + `.quarantine",reason="old"} 0`, `collect_failures_total{PREFIX,source="redis_memory"} 0`,
		}},
	} {
		var metrics string
		for _, want := range tc.wants {
			want = "delaybridge_" + strings.ReplaceAll(want, "PREFIX", prefix) + "\n"
			await(t, want, func() bool {
				_, metrics = tc.of.get(t, "/metrics")
				return strings.Contains(metrics, want)
			})
		}
		promtool(t, metrics, "check", "metrics")
	}
	if due := regexp.MustCompile(`next_due_timestamp_seconds\{.*\} (\S+)`).FindStringSubmatch(second(bridge.get(t, "/metrics"))); due == nil {
		t.Error("no metric of when the next message is due, which is in an hour")
	} else if unix, err := strconv.ParseFloat(due[1], 64); err != nil || time.Until(time.Unix(int64(unix), 0)) > time.Hour {
		t.Errorf("the next message is due at %s", due[1])
	}
	for _, want := range []string{`delaybridge_redis_memory_bytes\{.*\} [1-9]`, `delaybridge_bridge_info\{layout="\d+",prefix=".+",version="[^"]+"\} 1\n`} {
		if text := second(bridge.get(t, "/metrics")); !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no metric is like %s:\n%s", want, text)
		}
	}
	if code, body := bridge.get(t, "/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz: %d %q", code, body)
	}
	consume.stop(t, 30*time.Second)
	bridge.stop(t, 30*time.Second)
}

func second(_ int, text string) string { return text }

// What is not ready is said, after a time; and a process that is told to stop ends within
// its drain timeout and ten seconds, whatever does not answer.
func TestReadyAndDrainWithoutServers(t *testing.T) {
	t.Parallel()
	rabbit, store := servertest.RabbitMQForTest(t), servertest.RedisForTest(t, servers.Single).Nodes()[0]
	vars := scriptEnv(t)
	vars["DELAYBRIDGE_AMQP_URL"], vars["DELAYBRIDGE_MANAGEMENT_URL"], vars["DELAYBRIDGE_REDIS_URL"] = rabbit.AMQPURL(), rabbit.ManagementURL(), store.URL()
	bridge := startServing(t, vars, nil, "bridge", "--drain-timeout", "3s")
	bridge.awaitReady(t)
	consume := startServing(t, vars, nil, "consume", "--queue", "closing", "--bind", "order.#", "--drain-timeout", "3s", "--connect-timeout", "10m")
	consume.awaitReady(t)

	says := func(w *watched, what string) func() bool {
		return func() bool {
			code, body := w.get(t, "/readyz")
			return code == http.StatusServiceUnavailable && strings.HasPrefix(body, "not ready\n") && strings.Contains(body, what)
		}
	}
	if err := store.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What does not answer does not hold up the rest.
	await(t, "a failure is counted", func() bool {
		began := time.Now()
		code, metrics := bridge.get(t, "/metrics")
		if took := time.Since(began); took > servePatience/2 {
			t.Errorf("a scrape took %v while Redis did not answer", took)
		}
		counted := regexp.MustCompile(`collect_failures_total\{.*source="redis"\} [1-9]`).MatchString(metrics)
		return code == http.StatusOK && counted && !strings.Contains(metrics, "delaybridge_parked_messages{") &&
			strings.Contains(metrics, "delaybridge_inbox_messages{")
	})
	await(t, "/readyz names Redis", says(bridge, "no answer from Redis for"))
	if err := store.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	bridge.awaitReady(t)

	if err := rabbit.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "/readyz of the bridge names RabbitMQ", says(bridge, "no connection to RabbitMQ at"))
	await(t, "/readyz of the consumer names RabbitMQ", says(consume, "no connection to RabbitMQ at"))
	if code, _ := bridge.get(t, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d, though a restart would mend nothing", code)
	}
	if err := store.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	const drain, more, slow = 3 * time.Second, 10 * time.Second, 5 * time.Second // slow: this machine
	bridge.stop(t, drain+more+slow)
	consume.stop(t, drain+more+slow)
	if err := store.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// systemd is told when the bridge is ready, that it lives, and that it stops.
func TestSystemdIsTold(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	vars := scriptEnv(t)
	vars["NOTIFY_SOCKET"], vars["WATCHDOG_USEC"] = socket, "300000"
	bridge := startServing(t, vars, nil, "bridge")
	var heard []string
	hear := func(what string) {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(servePatience)); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 4096)
		for !slices.Contains(heard, what) {
			n, err := conn.Read(buffer)
			if err != nil {
				t.Fatalf("%v; heard %q, and not %q", err, heard, what)
			}
			heard = append(heard, strings.Split(string(buffer[:n]), "\n")...)
		}
	}
	hear("READY=1")
	if code, body := bridge.get(t, "/readyz"); code != http.StatusOK {
		t.Errorf("systemd was told that the bridge is ready, which it is not: %s", body)
	}
	hear("STATUS=ready")
	heard = nil
	hear("WATCHDOG=1")
	bridge.stop(t, 30*time.Second)
	hear("STOPPING=1")
}

// Debian's Prometheus, with the rules as they are shipped but for their patience, has
// alerts fire over what a bridge says, and over its end.
func TestPrometheusAlerts(t *testing.T) {
	t.Parallel()
	if err := servers.EnsureClients(t.Context(), map[string]string{"prometheus": "prometheus"}); err != nil {
		t.Fatal(err)
	}
	vars := scriptEnv(t)
	bridge := startServing(t, vars, nil, "bridge")
	bridge.awaitReady(t)
	dir := t.TempDir()
	rules := regexp.MustCompile(`(?m)^\s+for: .*\n`).ReplaceAllString(read(t, observability+"alerts.yml"), "")
	config := "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [alerts.yml]\n" +
		"scrape_configs: [{job_name: delaybridge, static_configs: [{targets: ['" + strings.TrimPrefix(bridge.url, "http://") + "']}]}]\n"
	for name, text := range map[string]string{"alerts.yml": rules, "prometheus.yml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address)
	said := &lines{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, said, said
	prometheus, err := servers.Spawn(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = prometheus.Stop(10 * time.Second)
		if t.Failed() {
			t.Logf("prometheus said:\n%s", said)
		}
	})
	at := &watched{url: "http://" + address}
	fires := func(alert string) bool {
		_, body := at.get(t, "/api/v1/alerts")
		return strings.Contains(body, `"alertname":"`+alert+`"`) && strings.Contains(body, vars["DELAYBRIDGE_PREFIX"])
	}
	await(t, "prometheus has scraped the bridge", func() bool {
		_, body := at.get(t, "/api/v1/query?query=delaybridge_unrouted_messages")
		return strings.Contains(body, `"0"`)
	})
	publish := exec.Command(filepath.Join(program(t), "delaybridge"), "publish", "--id", "m", "--key", "nobody.wants")
	publish.Env = os.Environ()
	for name, value := range vars {
		publish.Env = append(publish.Env, name+"="+value)
	}
	if out, err := publish.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	await(t, "DelaybridgeUnrouted fires", func() bool { return fires("DelaybridgeUnrouted") })
	if fires("DelaybridgeNoLiveBridge") {
		t.Error("DelaybridgeNoLiveBridge fires beside a bridge that is ready")
	}
	bridge.stop(t, 30*time.Second)
	await(t, "DelaybridgeNoLiveBridge fires", func() bool { return fires("DelaybridgeNoLiveBridge") })
}
