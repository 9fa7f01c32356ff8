package traffic

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/telemetry"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/producer/metrics"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	defaultInFlight       = 1000
	defaultPublishTimeout = 30 * time.Second
)

// publishFlags are what the command line says about one message.
type publishFlags struct {
	id, key, entry, in, at, body, bodyFile, contentType string
	headers                                             []string
}

// single lists the flags that describe one message.
func single() []string {
	return []string{"id", "key", "entry", "in", "at", "body", "body-file", "header", "content-type"}
}

func newPublishCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish (--key KEY [--id ID] [--in 30m | --at INSTANT] | --file FILE)",
		Short: "Publish one message, or a file of them, with a delay",
		Long: `Publishes messages and prints which way each one takes and when it is due. It
succeeds once RabbitMQ or Redis has every message. Redis is needed only for
delays that equal no tier. Without --in and --at a message is due at once.

With --file it reads one JSON object per line, from standard input if FILE is -:

  {"id":"o-1","key":"order.unpaid","in":"30m"}
  {"id":"o-2","key":"order.unpaid","at":"2030-01-01T08:00:00Z","body":"text",
   "headers":{"shop":7},"content_type":"text/plain"}

(each on one line). A string as body is sent as it is, any other value as JSON
text; "body_base64" takes bytes; "entry" names an entry exchange. A line that is wrong, or that could not be
published, is reported with its number on standard error; the others go through,
and the exit code is 1. To repeat an unconfirmed line is safe where its consumer
recognises the ID.

On SIGINT or SIGTERM it stops reading, waits for the answers to what is under
way, reports and exits with 130.`,
		Example: `  delaybridge publish --id o-1 --key order.unpaid --in 30m --body '{"order":1}'
  delaybridge publish --file orders.jsonl -o jsonl > receipts.jsonl
  generate-orders | delaybridge publish --file -`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	var f publishFlags
	var file string
	var inFlight int
	var timeout time.Duration
	var untracked bool
	service := telemetry.Flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.id, "id", "", "the message's ID, by which it is cancelled, and a repetition is recognised (default: one that is made up and printed)")
	flags.StringVar(&f.key, "key", "", "routing key, by which consumers bind their queues")
	flags.StringVar(&f.entry, "entry", "", "name of the entry exchange, one of the setting entries; then --key may be left out (default: the default one)")
	flags.StringVar(&f.in, "in", "", "delay, such as 1500ms, 30m, 1h30m, 7d or 1y")
	flags.StringVar(&f.at, "at", "", "instant to deliver at, such as 2030-01-01T08:00:00Z")
	flags.StringVar(&f.body, "body", "", "the body")
	flags.StringVar(&f.bodyFile, "body-file", "", "read the body from this file, or from standard input if it is -")
	flags.StringArrayVar(&f.headers, "header", nil, "a header, NAME=TEXT; may be repeated")
	flags.StringVar(&f.contentType, "content-type", "", "the content type")
	flags.StringVar(&file, "file", "", "read messages from this file, one JSON object per line; - is standard input")
	flags.IntVar(&inFlight, "in-flight", defaultInFlight, "with --file: how many messages may be under way")
	cli.DurationFlag(flags, &timeout, "timeout", defaultPublishTimeout, "how long a message may take, waiting for a server included")
	flags.BoolVar(&untracked, "untracked", false, "send messages whose delay equals a tier straight there, without Redis: they cannot be looked up, listed or brought forward")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		switch {
		case inFlight < 1:
			return cli.Usage(fmt.Errorf("--in-flight %d: must be at least 1", inFlight))
		case timeout <= 0:
			return cli.Usage(fmt.Errorf("--timeout %v: must be longer than 0", timeout))
		}
		// That it has connected is no news to someone who waits for a receipt.
		if settings.LogLevel == slog.LevelInfo {
			settings.LogLevel = slog.LevelWarn
		}
		job := &publishJob{App: a, settings: settings, format: *format, inFlight: inFlight, timeout: timeout, untracked: untracked, service: service}
		if file == "" {
			one, err := f.publication(a.In)
			if err != nil {
				return cli.Usage(err)
			}
			return job.one(cmd.Context(), one)
		}
		for _, name := range single() {
			if flags.Changed(name) {
				return cli.Usage(fmt.Errorf("--%s and --file exclude each other: a file says everything itself", name))
			}
		}
		return job.file(cmd.Context(), file)
	}
	return cmd
}

// publication reads and checks the one message that the flags describe.
func (f *publishFlags) publication(stdin io.Reader) (*publication, error) {
	var faults []error
	p := &publication{message: message.Message{ID: f.id, Entry: f.entry, RoutingKey: f.key, ContentType: f.contentType}}
	if f.id == "" {
		p.message.ID = rand.Text()
	}
	if f.key == "" && f.entry == "" {
		faults = append(faults, errors.New("--key is missing: consumers bind their queues by it"))
	}
	var err error
	if p.when, err = cli.ParseWhen(f.in, f.at, "--in", "--at"); err != nil {
		faults = append(faults, err)
	}
	if p.message.Body, err = f.readBody(stdin); err != nil {
		faults = append(faults, err)
	}
	for _, header := range f.headers {
		name, text, ok := strings.Cut(header, "=")
		if _, twice := p.message.Headers[name]; twice || !ok || name == "" {
			faults = append(faults, fmt.Errorf("--header %q: write NAME=TEXT, each name once", header))
			continue
		}
		if p.message.Headers == nil {
			p.message.Headers = amqp.Table{}
		}
		p.message.Headers[name] = text
	}
	if len(faults) == 0 {
		faults = append(faults, p.message.Validate(), p.when.Validate(time.Now()))
	}
	return p, errors.Join(faults...)
}

func (f *publishFlags) readBody(stdin io.Reader) ([]byte, error) {
	switch {
	case f.bodyFile == "":
		return []byte(f.body), nil
	case f.body != "":
		return nil, errors.New("--body and --body-file exclude each other")
	case f.bodyFile == "-":
		return io.ReadAll(io.LimitReader(stdin, wire.MaxBodyBytes+1))
	}
	file, err := os.Open(f.bodyFile)
	if err != nil {
		return nil, fmt.Errorf("--body-file: %w", err)
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, wire.MaxBodyBytes+1))
}

// publishJob is one run of the command.
type publishJob struct {
	*cli.App
	settings  cli.Config
	format    string
	inFlight  int
	timeout   time.Duration
	untracked bool
	service   *telemetry.Service
}

// session runs a producer while work works, or ctx lasts: then the producer
// waits for the answers to what is under way, and sends nothing more. Redis is
// connected to on first use.
func (j *publishJob) session(ctx context.Context, work func(p *producer.Producer, ended <-chan struct{})) (err error) {
	log := j.Logger(j.settings)
	if err := j.service.Listen(ctx, log); err != nil {
		return err
	}
	provider, flush, err := telemetry.OpenTraces(ctx, j.App, "publish", log)
	if err != nil {
		return err
	}
	defer flush()
	park, closePark, err := connect.OpenPark(j.settings, log, connect.ParkUse{Service: j.service, Provider: provider, Parks: true})
	if err != nil {
		return err
	}
	defer closePark()
	p, err := newProducer(j.service, producer.Config{
		AMQPURL: j.settings.AMQPURL, Topology: j.settings.Topology, Parker: park, Untracked: j.untracked,
		ConnectionName: "delaybridge publish", GiveUpAfter: j.settings.ConnectTimeout, Logger: log,
		TracerProvider: provider,
	})
	if err != nil {
		return cli.Usage(err)
	}
	defer j.service.Serve(ctx, func(context.Context) error { return p.Check() })()
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	var lost error
	go func() {
		defer close(ended)
		lost = p.Run(running)
	}()
	work(p, ended)
	stop()
	<-ended
	return lost
}

// newProducer makes a producer, which keeps metrics if they are served.
func newProducer(s *telemetry.Service, c producer.Config) (*producer.Producer, error) {
	if !s.Counts() {
		return producer.New(c)
	}
	return metrics.NewProducer(s.Registry, c)
}

// publish gives a message its time, and lets an interrupt only stop what is not
// sent yet.
func (j *publishJob) publish(ctx context.Context, p *producer.Producer, one *publication) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.timeout)
	defer cancel()
	one.receipt, one.err = p.Publish(ctx, one.message, one.when)
	if errors.Is(one.err, producer.ErrCancelled) { // as the canceller wanted
		one.cancelled, one.err = true, nil
	}
	delay, _ := one.when.Relative()
	isDelay := func(tier topology.Tier) bool { return tier.TTL == delay }
	if errors.Is(one.err, redisbridge.ErrUnreachable) && slices.ContainsFunc(j.settings.Topology.Tiers(), isDelay) {
		one.err = fmt.Errorf("%w; --untracked sends it to the tier of %v without Redis", one.err, delay)
	}
}

// one publishes the message of the command line.
func (j *publishJob) one(ctx context.Context, one *publication) error {
	lost := j.session(ctx, func(p *producer.Producer, _ <-chan struct{}) { j.publish(ctx, p, one) })
	switch {
	case one.err != nil && ctx.Err() != nil:
		fmt.Fprintf(j.Err, "delaybridge: %s\n", printable.Error(one.err))
		return ctx.Err()
	case one.err != nil:
		return one.err
	case one.receipt == producer.Receipt{} && !one.cancelled:
		return lost // there was not even a producer
	}
	r := newReceipt(one)
	if note := r.note(); note != "" {
		fmt.Fprintf(j.Err, "delaybridge: %s: %s\n", printable.Text(r.ID), note)
	}
	return j.print([]receipt{r})
}
