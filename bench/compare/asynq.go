package main

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
	"github.com/delaybridge/delaybridge/internal/usage"
)

// asynqQueue is asynq on the Redis that the delay bridge uses: every write is on
// disk before its answer.
type asynqQueue struct {
	server   *redisserver.Node
	observer *redis.Client
	client   *asynq.Client
	workers  []*asynq.Server
}

const (
	asynqTask = "compare"
	// asynqServers is the number of servers, each of which takes tasks from
	// Redis one after the other, with a write to disk between them.
	asynqServers = 8
	// asynqConcurrency is for all servers together.
	asynqConcurrency = 512
	// asynqCheck is how often a server looks for tasks that are due, and an idle
	// one for tasks to work on. The defaults are 5 s and 1 s.
	asynqCheck = 10 * time.Millisecond
	// asynqConnections is what concurrent calls share. The default is ten per
	// processor.
	asynqConnections = 128
)

func (a *asynqQueue) start(ctx context.Context, deliver func([]byte)) (err error) {
	if a.server, err = servers.StartRedis(ctx, packages()); err != nil {
		return err
	}
	options, err := redis.ParseURL(a.server.URL())
	if err != nil {
		return err
	}
	a.observer = redis.NewClient(options)
	connection := asynq.RedisClientOpt{Addr: options.Addr, PoolSize: asynqConnections, ReadTimeout: 30 * time.Second}
	a.client = asynq.NewClient(connection)
	handler := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		deliver(task.Payload())
		return nil
	})
	for range asynqServers {
		server := asynq.NewServer(connection, asynq.Config{
			Concurrency:              asynqConcurrency / asynqServers,
			DelayedTaskCheckInterval: asynqCheck,
			TaskCheckInterval:        asynqCheck,
			ShutdownTimeout:          time.Second,
			LogLevel:                 asynq.ErrorLevel,
		})
		if err := server.Start(handler); err != nil {
			return err
		}
		a.workers = append(a.workers, server)
	}
	return nil
}

func (a *asynqQueue) publish(ctx context.Context, body []byte, delay time.Duration) error {
	_, err := a.client.EnqueueContext(ctx, asynq.NewTask(asynqTask, body), asynq.ProcessIn(delay))
	return err
}

func (a *asynqQueue) memory(ctx context.Context) (map[string]float64, error) {
	used, err := usedMemory(ctx, a.observer)
	return map[string]float64{usage.Redis: used}, err
}

func (a *asynqQueue) stop() error {
	var errs []error
	for _, server := range a.workers {
		server.Shutdown()
	}
	if a.client != nil {
		_ = a.client.Close()
	}
	if a.observer != nil {
		_ = a.observer.Close()
	}
	if a.server != nil {
		errs = append(errs, a.server.Stop(context.Background()))
	}
	return errors.Join(errs...)
}
