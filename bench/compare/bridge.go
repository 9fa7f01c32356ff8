package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/usage"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// bridge is the delay bridge as it is shipped: one bridge as a process of its
// own, every setting at its default, and a producer that parks in Redis itself.
type bridge struct {
	dir     string // of the built program
	pair    *servers.Pair
	program *servers.Program
	client  redis.UniversalClient
	conn    *amqp.Connection // of the consumer

	producer *producer.Producer
	stopRun  context.CancelFunc
	ran      chan error
}

// module is the one this benchmark belongs to.
const module = "github.com/delaybridge/delaybridge"

func (b *bridge) start(ctx context.Context, deliver func([]byte)) (err error) {
	if b.pair, err = servers.Start(ctx, packages()); err != nil {
		return err
	}
	t, err := topology.New(topology.Config{})
	if err != nil {
		return err
	}
	if b.conn, err = amqp.Dial(b.pair.RabbitMQ.AMQPURL()); err != nil {
		return err
	}
	if _, err := t.Apply(ctx, b.conn); err != nil {
		return err
	}
	if err := consume(b.conn, t.ReadyExchange(), "#", deliver); err != nil {
		return err
	}
	if b.client, err = redisbridge.NewClient(b.pair.Redis.URL()); err != nil {
		return err
	}
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: b.client, Topology: t})
	if err != nil {
		return err
	}
	b.producer, err = producer.New(producer.Config{AMQPURL: b.pair.RabbitMQ.AMQPURL(), Topology: t, Parker: park, Channels: publishChannels})
	if err != nil {
		return err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.stopRun, b.ran = cancel, make(chan error, 1)
	go func() { b.ran <- b.producer.Run(run) }()
	return b.launch(ctx)
}

// launch builds the program from the module's own directory, whose go.mod says
// what it is built with, and starts it.
func (b *bridge) launch(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "delaybridge-compare-"); err != nil {
		return err
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("find %s: %w", module, err)
	}
	file := filepath.Join(b.dir, usage.BridgeProgram)
	build := exec.CommandContext(ctx, "go", "build", "-o", file, "./cmd/delaybridge")
	build.Dir = strings.TrimSpace(string(root))
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the bridge: %w: %s", err, output)
	}
	cmd := exec.Command(file, "bridge", "--log-level=warn",
		"--amqp-url="+b.pair.RabbitMQ.AMQPURL(), "--redis-url="+b.pair.Redis.URL())
	cmd.Stderr = os.Stderr
	b.program, err = servers.Spawn(cmd)
	return err
}

func (b *bridge) publish(ctx context.Context, body []byte, delay time.Duration) error {
	// What tells messages apart is at the start of the body.
	m := message.Message{ID: hex.EncodeToString(body[:tagBytes]), RoutingKey: routingKey, Body: body}
	_, err := b.producer.Publish(ctx, m, message.After(delay))
	return err
}

// memory: messages wait in Redis, and in RabbitMQ when they are due soon.
func (b *bridge) memory(ctx context.Context) (map[string]float64, error) {
	used, err := usedMemory(ctx, b.client)
	if err != nil {
		return nil, err
	}
	resident, err := usage.Resident(usage.RabbitMQ)
	return map[string]float64{usage.Redis: used, usage.RabbitMQ: resident}, err
}

func (b *bridge) stop() error {
	var errs []error
	if b.stopRun != nil {
		b.stopRun()
		errs = append(errs, <-b.ran)
	}
	if b.program != nil {
		errs = append(errs, b.program.Stop(30*time.Second))
	}
	if b.conn != nil {
		_ = b.conn.Close()
	}
	if b.client != nil {
		_ = b.client.Close()
	}
	if b.pair != nil {
		errs = append(errs, b.pair.Stop(context.Background()))
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

// usedMemory is what Redis has allocated, by its own account.
func usedMemory(ctx context.Context, client redis.UniversalClient) (float64, error) {
	info, err := client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if used, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			return strconv.ParseFloat(used, 64)
		}
	}
	return 0, errors.New("redis does not say how much memory it uses")
}
