//go:build frameworks

package frameworks_test

import (
	"bytes"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

const (
	debianPython = "/usr/bin/python3" // Debian's, which has what Debian's packages bring
	javaPath     = "/usr/share/java/amqp-client.jar:/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-nop.jar"
)

// framework is how to run what the page shows of one.
type framework struct {
	publish, consume program
}

func install(t *testing.T) {
	t.Helper()
	if err := servers.EnsureClients(t.Context(), map[string]string{
		"python3-pika":                 "/usr/lib/python3/dist-packages/pika",
		"python3-stomp":                "/usr/lib/python3/dist-packages/stomp",
		"python3-paho-mqtt":            "/usr/lib/python3/dist-packages/paho",
		"python3-qpid-proton":          "/usr/lib/python3/dist-packages/proton",
		"python3-celery":               "/usr/lib/python3/dist-packages/celery",
		"nodejs":                       "node",
		"npm":                          "npm",
		"php-cli":                      "php",
		"php-amqp":                     "/etc/php/8.2/mods-available/amqp.ini",
		"php-amqplib":                  "/usr/share/php/PhpAmqpLib",
		"php-symfony-amqp-messenger":   "/usr/share/php/Symfony/Component/Messenger/Bridge/Amqp",
		"php-symfony-console":          "/usr/share/php/Symfony/Component/Console",
		"php-symfony-framework-bundle": "/usr/share/php/Symfony/Bundle/FrameworkBundle",
		"php-symfony-yaml":             "/usr/share/php/Symfony/Component/Yaml",
		"ruby-bunny":                   "/usr/share/rubygems-integration/all/gems/bunny-2.19.0",
		"librabbitmq-client-java":      "/usr/share/java/amqp-client.jar",
		"default-jdk-headless":         "javac",
		"amqp-tools":                   "amqp-publish",
		"libanyevent-rabbitmq-perl":    "/usr/share/perl5/AnyEvent/RabbitMQ.pm",
	}); err != nil {
		t.Fatal(err)
	}
}

// nodeFolder is a copy of this folder with what npm brings, and NestJS' program compiled.
func nodeFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range []string{"amqplib", "nestjs", "types"} {
		if err := os.CopyFS(dir+"/"+part, os.DirFS(part)); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"package.json", "tsconfig.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{
		"npm install --no-audit --no-fund --no-package-lock --ignore-scripts --prefer-offline",
		"node node_modules/typescript/bin/tsc",
	} {
		args := strings.Fields(line)
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	return dir
}

// javaFolder has the compiled classes.
func javaFolder(t *testing.T, sources ...string) string {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{"-cp", javaPath, "-d", dir}, sources...)
	if out, err := exec.CommandContext(t.Context(), "javac", args...).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v: %s", err, out)
	}
	return dir
}

func frameworks(node, java string) map[string]framework {
	in := func(dir string, args ...string) program { return program{dir: dir, args: args} }
	return map[string]framework{
		"pika":        {in("pika", debianPython, "publish.py"), in("pika", debianPython, "consume.py")},
		"celery":      {in("celery", debianPython, "publish.py"), in("celery", debianPython, "-m", "celery", "-A", "tasks", "worker", "--loglevel", "WARNING", "--pool", "solo")},
		"amqp10":      {in("amqp10", debianPython, "publish.py"), in("amqp10", debianPython, "consume.py")},
		"amqplib":     {in(node, "node", "amqplib/publish.mjs"), in(node, "node", "amqplib/consume.mjs")},
		"nestjs":      {in(node, "node", "nestjs/orders.js"), in(node, "node", "nestjs/orders.js")},
		"php-amqplib": {in("php-amqplib", "php", "publish.php"), in("php-amqplib", "php", "consume.php")},
		"symfony":     {in("symfony", "php", "app.php", "place"), in("symfony", "php", "app.php", "messenger:consume", "due", "--sleep=0.05")},
		"bunny":       {in("bunny", "ruby", "publish.rb"), in("bunny", "ruby", "consume.rb")},
		"java":        {in(java, "java", "-cp", ".:"+javaPath, "Publish"), in(java, "java", "-cp", ".:"+javaPath, "Consume")},
	}
}

var placedAt = regexp.MustCompile(`\b(1\d{12})\b`)

// Each framework publishes an order, and its own consumer closes it when it is due.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	install(t)
	node, java := nodeFolder(t), javaFolder(t, "java/Publish.java", "java/Consume.java", "types/Java.java")
	w := newWorld(t, servertest.ForTest(t))
	t.Run("types of numbers", func(t *testing.T) { testTypesOfNumbers(t, w, node, java) })
	t.Run("AMQP 1.0", func(t *testing.T) { testAMQP10(t, w) })
	for name, f := range frameworks(node, java) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := w.start(t, f.consume)
			w.awaitBinding(t, "orders."+name)
			// One that equals the tier, and one that does not.
			for _, delay := range []time.Duration{tier, 1500 * time.Millisecond} {
				order := name + "-" + delay.String()
				w.run(t, f.publish.with(order, strconv.FormatInt(delay.Milliseconds(), 10)))
				got := await(t, lines, order)
				placed, err := strconv.ParseInt(placedAt.FindString(got.line), 10, 64)
				if err != nil {
					t.Fatalf("%q does not say when the order was placed", got.line)
				}
				if after := got.at.Sub(time.UnixMilli(placed)); after < delay {
					t.Errorf("%v: closed after %v, which is early", delay, after)
				}
				w.compare(t, order, delay)
			}
			if name == "celery" { // its task asks for another attempt by way of the bridge
				order := "locked-" + name
				w.run(t, f.publish.with(order, "1000"))
				got := await(t, lines, order)
				placed, _ := strconv.ParseInt(placedAt.FindString(got.line), 10, 64)
				if after := got.at.Sub(time.UnixMilli(placed)); after < tier+1500*time.Millisecond {
					t.Errorf("the second attempt was after %v, which is early", after)
				}
			}
		})
	}
}

func await(t *testing.T, lines <-chan said, order string) said {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case got, ok := <-lines:
			if !ok {
				t.Fatalf("the consumer ended before order %s", order)
			}
			if strings.Contains(got.line, "close") && strings.Contains(got.line, order) {
				return got
			}
		case <-timeout:
			t.Fatalf("order %s was not closed", order)
		}
	}
}

// compare looks at what has become of a message on its way.
func (w *world) compare(t *testing.T, order string, delay time.Duration) {
	t.Helper()
	in, out := w.await(t, w.published, order), w.await(t, w.delivered, order)
	if in.tier != (delay == tier) {
		t.Errorf("%v: in the tier: %v", delay, in.tier)
	}
	if !bytes.Equal(in.Body, out.Body) {
		t.Errorf("%v: the body was %q and is %q", delay, in.Body, out.Body)
	}
	type properties struct{ contentType, contentEncoding, id, correlation, replyTo, kind, app, key string }
	of := func(s sighting) properties {
		return properties{s.ContentType, s.ContentEncoding, s.MessageId, s.CorrelationId, s.ReplyTo, s.Type, s.AppId, s.RoutingKey}
	}
	if of(in) != of(out) {
		t.Errorf("%v: the properties were %+v and are %+v", delay, of(in), of(out))
	}
	for name, value := range in.Headers {
		if got := out.Headers[name]; !reflect.DeepEqual(got, value) {
			t.Errorf("%v: header %s was %#v and is %#v", delay, name, value, got)
		}
	}
}

// The plugin's type of exchange is refused, whatever its name, the entry exchange's own included: no framework that
// declares one can be served. One that declares passively finds what is there.
func TestDelayedExchangeIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, servertest.ForTest(t))
	for _, name := range []string{"delaybridge.entry", "another"} {
		conn, err := amqp.Dial(w.env.AMQPURL)
		if err != nil {
			t.Fatal(err)
		}
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if name == "delaybridge.entry" {
			if err := ch.ExchangeDeclarePassive(name, "x-delayed-message", true, false, false, false, nil); err != nil {
				t.Errorf("passively: %v", err)
			}
		}
		err = ch.ExchangeDeclare(name, "x-delayed-message", true, false, false, false, amqp.Table{"x-delayed-type": "topic"})
		if err == nil || !strings.Contains(err.Error(), "unknown exchange type 'x-delayed-message'") {
			t.Errorf("%s: %v", name, err)
		}
		_ = conn.Close() // the broker may have closed it
	}
}
