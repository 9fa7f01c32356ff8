package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/consumer"
	consumermetrics "github.com/delaybridge/delaybridge/consumer/metrics"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	producermetrics "github.com/delaybridge/delaybridge/producer/metrics"
	"github.com/delaybridge/delaybridge/producer/outbox"
	outboxmetrics "github.com/delaybridge/delaybridge/producer/outbox/metrics"
	"github.com/delaybridge/delaybridge/producer/outbox/mysql"
	"github.com/delaybridge/delaybridge/redisbridge"
	bridgemetrics "github.com/delaybridge/delaybridge/redisbridge/metrics"
	"github.com/delaybridge/delaybridge/topology"
)

const observability = "../../internal/servers/config/observability/"

// The table in docs/metrics.md has every metric, with its type and labels, and no other.
func TestEveryMetricIsInTheTable(t *testing.T) {
	t.Parallel()
	inCode := metricsInCode(t)
	inTable := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(delaybridge_\\w+)` \\| (\\w+) \\| ([^|]*) \\| [^|]+ \\|$")
	for _, m := range row.FindAllStringSubmatch(read(t, "../../docs/metrics.md"), -1) {
		inTable[m[1]] = m[2] + " by " + strings.ReplaceAll(m[3], "`", "")
	}
	for name, what := range inCode {
		if inTable[name] != what {
			t.Errorf("docs/metrics.md: %s is %q, want %q", name, inTable[name], what)
		}
	}
	for name := range inTable {
		if inCode[name] == "" {
			t.Errorf("docs/metrics.md has %s, which there is not", name)
		}
	}
}

// Rules and dashboard use no other names and labels than there are.
func TestRulesAndDashboardKnowTheirMetrics(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for name, what := range metricsInCode(t) {
		known[name] = true
		if strings.HasPrefix(what, "histogram") {
			known[name+"_bucket"], known[name+"_sum"], known[name+"_count"] = true, true, true
		}
	}
	names := regexp.MustCompile(`delaybridge_\w+`)
	for _, file := range []string{"alerts.yml", "alerts_test.yml", "grafana/delaybridge.json"} {
		used := names.FindAllString(read(t, observability+file), -1)
		if len(used) == 0 {
			t.Errorf("%s: no metrics found", file)
		}
		for _, name := range used {
			if !known[name] {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
}

// A dashboard that Grafana takes, in which each metric of the table has its place but for
// those that are for alerts.
func TestDashboardIsComplete(t *testing.T) {
	t.Parallel()
	text := read(t, observability+"grafana/delaybridge.json")
	var board struct {
		UID, Title string
		Panels     []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text), &board); err != nil || board.UID == "" || board.Title == "" {
		t.Fatalf("%v; uid %q, title %q", err, board.UID, board.Title)
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q: needs an ID of its own, a title and a place within 24 columns", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, `prefix=~"$prefix"`) {
				t.Errorf("panel %q: %s is not of the chosen prefix", p.Title, target.Expr)
			}
		}
	}
	notShown := []string{ // what these say, others show
		"delaybridge_tier_ttl_seconds", "delaybridge_consumer_ready", "delaybridge_producer_ready",
		"delaybridge_producer_reconnects_total", "delaybridge_redis_connects_total",
	}
	for name := range metricsInCode(t) {
		if !strings.Contains(text, name) && !slices.Contains(notShown, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// Each alert says what, and has its place in docs/alerts.md.
func TestEachAlertHasItsRunbook(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, observability+"alerts.yml")), &file); err != nil {
		t.Fatal(err)
	}
	runbooks, tests := read(t, "../../docs/alerts.md"), read(t, observability+"alerts_test.yml")
	if len(file.Groups) == 0 || len(file.Groups[0].Rules) == 0 {
		t.Fatal("no rules")
	}
	for _, rule := range file.Groups[0].Rules {
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || rule.Labels["severity"] == "" {
			t.Errorf("%s: needs summary, description and severity", rule.Alert)
		}
		_, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "docs/alerts.md#")
		if anchor != strings.ToLower(rule.Alert) || !strings.Contains(runbooks, "\n## "+rule.Alert+"\n") {
			t.Errorf("%s: docs/alerts.md has no such heading, or the runbook_url leads to %q", rule.Alert, anchor)
		}
		if strings.Count(tests, "alertname: "+rule.Alert+"\n        exp_alerts:\n") == 0 {
			t.Errorf("%s: no test has it fire", rule.Alert)
		}
	}
}

// Several bridges, consumers and producers may share a registry.
func TestSeveralShareARegistry(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	for range 2 {
		instrument(t, registry, "shop")
	}
	instrument(t, registry, "other")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "delaybridge_consumer_ready" && len(family.GetMetric()) != 2 {
			t.Errorf("%v; want one for each prefix", family.GetMetric())
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// metricsInCode are all metrics of ours: type and labels, but for the prefix.
func metricsInCode(t *testing.T) map[string]string {
	t.Helper()
	r := recorder{}
	instrument(t, r, "shop")
	if len(r) < 30 {
		t.Fatalf("only %d metrics: %v", len(r), slices.Collect(maps.Keys(r)))
	}
	return r
}

// instrument makes one of each, without I/O.
func instrument(t *testing.T, registerer prometheus.Registerer, prefix string) {
	t.Helper()
	const url = "amqp://127.0.0.1:1"
	top, err := topology.New(topology.Config{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	_, bridge := bridgemetrics.NewBridge(registerer, redisbridge.Config{Client: client, AMQPURL: url, Topology: top}, nil)
	_, consume := consumermetrics.NewConsumer(registerer, consumer.Config{
		AMQPURL: url, Topology: top, Queue: "closing",
		Handler: consumer.HandlerFunc(func(context.Context, message.Message) error { return nil }),
	})
	p, produce := producermetrics.NewProducer(registerer, producer.Config{AMQPURL: url, Topology: top})
	db, err := sql.Open("mysql", "shop@tcp(127.0.0.1:1)/shop")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	_, relay := outboxmetrics.NewRelay(registerer, prefix, outbox.RelayConfig{Store: mysql.New(db), Publisher: p})
	if bridge != nil || consume != nil || produce != nil || relay != nil {
		t.Fatal(bridge, consume, produce, relay)
	}
}

// recorder is a registerer that only notes what there is.
type recorder map[string]string

var described = regexp.MustCompile(`fqName: "(\w+)", help: ".+", constLabels: \{prefix="shop"\}, variableLabels: \{([^}]*)\}`)

func (r recorder) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		c.Describe(descs)
	}()
	for desc := range descs {
		found := described.FindStringSubmatch(desc.String())
		if found == nil {
			return fmt.Errorf("%v has another form", desc)
		}
		name, kind := found[1], "gauge"
		if _, histogram := c.(*prometheus.HistogramVec); histogram {
			kind = "histogram"
		} else if strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		r[name] = kind + " by " + strings.ReplaceAll(found[2], ",", ", ")
	}
	return nil
}

func (r recorder) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

func (recorder) Unregister(prometheus.Collector) bool { return false }
