package charts_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// program builds delaybridge as it is in this repository, once for all tests.
var program = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // it is a function
	path := filepath.Join(scratch, "delaybridge")
	build := exec.Command("go", "build", "-o", path, "./cmd/delaybridge")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

var scratch string //nolint:gochecknoglobals // the folder of the program

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "delaybridge-charts"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code) //nolint:forbidigo // a test's main
}

// command is a container's command line, with its environment, as Kubernetes would run it: files is what its
// secrets hold, readable by their group as fsGroup makes them.
func command(t *testing.T, c corev1.Container, files map[string]string, more ...string) *exec.Cmd {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o440); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), path)
	for _, arg := range append(slices.Clone(c.Args), more...) {
		cmd.Args = append(cmd.Args, strings.ReplaceAll(arg, secretsPath, dir))
	}
	cmd.Env = []string{"HOME=/nonexistent"}
	for _, v := range c.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+strings.ReplaceAll(v.Value, secretsPath, dir))
	}
	return cmd
}

// urls name servers that do not run.
func urls() map[string]string {
	return map[string]string{
		"amqp-url": "amqp://u:p@127.0.0.1:1/", "redis-url": "redis://127.0.0.1:1/0", "management-url": "http://u:p@127.0.0.1:1",
	}
}

// The settings that a chart has been given are those that the program finds.
func TestSettingsReachTheProgram(t *testing.T) {
	t.Parallel()
	all := rendered(t, `settings: {prefix: shop, tiers: [1s, 5m], lead: 5m, shards: 12, entries: [orders=direct, audit=fanout+tracked],
	  default-entry: topic+tracked, quotas: [orders=messages:50000+delay:30d], default-quota: "bytes:2GiB", dedupe-window: 1h, remember: 20m,
	  tombstones: 2d, quarantine-retention: 30d, unrouted-retention: 7d, redis-wait-replicas: 1, connect-timeout: 2m, log-level: debug, log-format: text}`)
	c := container(deployment(t, all))
	c.Args = []string{"config", "show", "-o", "json"}
	out, err := command(t, c, urls()).Output()
	if err != nil {
		t.Fatal(err)
	}
	var values []struct{ Key, Value, Source string }
	if err := json.Unmarshal(out, &values); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, v := range values {
		got[v.Key] = v.Value
		if !strings.HasPrefix(v.Source, "environment ") {
			t.Errorf("%s comes from %s: the chart has no value for this setting, so add it to values.schema.json and to this test", v.Key, v.Source)
		}
	}
	for key, wanted := range map[string]string{
		"prefix": "shop", "tiers": "1s,5m", "lead": "5m", "shards": "12", "entries": "orders=direct,audit=fanout+tracked",
		"default-entry": "topic+tracked", "quotas": "orders=messages:50000+delay:30d", "default-quota": "bytes:2GiB",
		"redis-wait-replicas": "1", "connect-timeout": "2m", "log-level": "debug",
	} {
		if got[key] != wanted {
			t.Errorf("%s is %q, want %q", key, got[key], wanted)
		}
	}
}

// A bridge starts with what the chart renders, whatever options it has: it lives and is not ready while there
// are no servers, warns of nothing about its files, and ends within its grace period.
func TestBridgeStartsAsRendered(t *testing.T) {
	t.Parallel()
	certificate, key := selfSigned(t)
	for values, token := range map[string]string{
		"":                  "",
		"management: false": "",
		"{extraArgs: [--lease, 10s, --show-every=0], metrics: {tlsSecretName: tls, tokenSecretName: token}, settings: {shards: 8}}": "s3cret",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			d := deployment(t, rendered(t, values))
			c, pod := container(d), d.Spec.Template.Spec
			files := urls()
			for name, content := range map[string]string{"metrics-tls.crt": certificate, "metrics-tls.key": key, "metrics-token": token} {
				if slices.Contains(secretFiles(pod), name) {
					files[name] = content
				}
			}
			b := start(t, command(t, c, files, "--metrics-addr=127.0.0.1:0"))
			b.answers(t, c.LivenessProbe, "", http.StatusOK)
			b.answers(t, c.ReadinessProbe, "", http.StatusServiceUnavailable)
			metrics := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/metrics", Scheme: c.LivenessProbe.HTTPGet.Scheme}}}
			b.answers(t, metrics, token, http.StatusOK)
			if token != "" {
				b.answers(t, metrics, "", http.StatusUnauthorized)
			}
			if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			select {
			case <-b.ended:
			case <-time.After(time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second):
				t.Error("Kubernetes would have killed it")
			}
			for _, line := range b.lines {
				if strings.Contains(line, "others may read") {
					t.Error(line)
				}
			}
		})
	}
}

// The Job's command is one that there is. Without a server it fails as such.
func TestTopologyJobRuns(t *testing.T) {
	t.Parallel()
	job := of[*batchv1.Job](t, rendered(t, "topologyJob: {enabled: true, secretName: wide}"), fullName+"-topology")
	files := map[string]string{"amqp-url": urls()["amqp-url"]}
	out, err := command(t, job.Spec.Template.Spec.Containers[0], files, "--connect-timeout=200ms").CombinedOutput()
	const unreachable = 4
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != unreachable {
		t.Errorf("%v, want exit code %d:\n%s", err, unreachable, out)
	}
}

// running is a bridge that serves health.
type running struct {
	cmd     *exec.Cmd
	address string
	ended   chan struct{}
	lines   []string // to be read once it has ended
}

// start returns once the bridge says at which address it serves.
func start(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	b := &running{cmd: cmd, ended: make(chan struct{})}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go func() {
		defer close(b.ended)
		lines := bufio.NewScanner(said)
		for lines.Scan() {
			b.lines = append(b.lines, lines.Text())
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving metrics and health" {
				address <- line.Address
			}
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-b.ended
	})
	select {
	case b.address = <-address:
	case <-b.ended:
		t.Fatalf("it has ended:\n%s", strings.Join(b.lines, "\n"))
	}
	return b
}

// answers asks as a probe does.
func (b *running) answers(t *testing.T, probe *corev1.Probe, token string, wanted int) {
	t.Helper()
	scheme := "http"
	if probe.HTTPGet.Scheme != "" {
		scheme = strings.ToLower(string(probe.HTTPGet.Scheme))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+b.address+probe.HTTPGet.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode != wanted {
		t.Errorf("%s: %d, want %d: %.500s", request.URL, response.StatusCode, wanted, text)
	}
}

func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}
