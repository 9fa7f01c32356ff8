package fault

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// rest closes the shop, waits until no acknowledged order is under way any more,
// ends all processes in order and looks at what is left.
func (w *world) rest(ctx context.Context) (*history.Final, error) {
	for _, name := range w.customers() {
		if err := w.processes[name].terminate(); err != nil {
			return nil, err
		}
	}
	// Of what was not acknowledged something may still come, and fail; the longest
	// delay is over by then.
	for range 2 {
		came, err := w.awaitLast(ctx)
		if err != nil {
			return nil, err
		}
		if !came {
			break
		}
		pause(ctx, longestOrder+2*time.Second)
		left, err := w.underway()
		if err != nil {
			return nil, err
		}
		if left == 0 {
			break
		}
	}
	processes, err := w.compareGoroutines(ctx)
	if err != nil {
		return nil, err
	}
	for name, p := range w.processes {
		if slices.Contains(w.customers(), name) {
			continue
		}
		if err := p.terminate(); err != nil {
			w.surprise(err.Error())
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	final := &history.Final{Orders: map[string]history.OrderState{}, Processes: processes}
	return final, errors.Join(w.countOrders(final), w.emptyQueues(final), w.lookIntoRedis(final), w.askRedis(final))
}

// awaitLast waits until no order is under way that must come to its end, and says whether that
// is so.
func (w *world) awaitLast(ctx context.Context) (bool, error) {
	for began, before := time.Now(), -1; time.Since(began) < restWithin && ctx.Err() == nil; pause(ctx, time.Second) {
		if err := w.clearUnrouted(); err != nil {
			return false, err
		}
		_ = w.replay(ctx, atLimit()) // what stays the rules see
		left, err := w.underway()
		if err != nil || left == 0 {
			return err == nil, err
		}
		if left != before {
			began, before = time.Now(), left
		}
	}
	return false, nil
}

// clearUnrouted sends on what came while the target was not bound, as an
// operator does.
func (w *world) clearUnrouted() error {
	return w.channel(func(ch *amqp.Channel) error {
		return sendOn(w.ctx, ch, w.topology)
	})
}

func (w *world) historyDir() string { return filepath.Join(w.dir, "history") }

// underway counts the orders to which something must still happen.
func (w *world) underway() (int, error) {
	events, err := history.Read(w.historyDir())
	return history.Underway(events), err
}

func (w *world) countOrders(final *history.Final) error {
	var errs []error
	for _, at := range w.stores {
		errs = append(errs, at.query(func(db *sql.DB) error { return w.countIn(db, at.Name, final) }))
	}
	return errors.Join(errs...)
}

func (w *world) countIn(db *sql.DB, store string, final *history.Final) error {
	rows, err := db.QueryContext(w.ctx, `
		SELECT o.id, sku, quantity, state, coalesce(c.n, 0)
		FROM delaybridge_orders o LEFT JOIN (SELECT id, count(*) AS n FROM closings GROUP BY id) c ON c.id = o.id`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	taken := map[string]int{}
	for rows.Next() {
		var id, sku string
		var quantity int
		var state history.OrderState
		if err := rows.Scan(&id, &sku, &quantity, &state.State, &state.Closings); err != nil {
			return err
		}
		final.Orders[id] = state
		if n, ok := orderNumber(id); ok {
			if o := planOrder(w.seed, n); o.also() != "" {
				final.Orders[history.InQueue(id, o.also())] = history.OrderState{State: history.StatePending}
			}
		}
		if state.State != "closed" {
			taken[sku] += quantity
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := w.countMails(db, final); err != nil {
		return err
	}
	if store == storePostgres {
		if err := w.countPython(db, final); err != nil {
			return err
		}
	}
	stock, err := db.QueryContext(w.ctx, `SELECT sku, available FROM delaybridge_stock`)
	if err != nil {
		return err
	}
	defer func() { _ = stock.Close() }()
	for stock.Next() {
		var line history.StockLine
		if err := stock.Scan(&line.SKU, &line.Have); err != nil {
			return err
		}
		line.Want = stockEach - taken[line.SKU]
		line.SKU += " in " + store
		final.Stock = append(final.Stock, line)
	}
	return stock.Err()
}

// countMails notes down which mails were sent, and how often.
func (w *world) countMails(db *sql.DB, final *history.Final) error {
	rows, err := db.QueryContext(w.ctx, `SELECT id, count(*) FROM mails GROUP BY id`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		sent := history.OrderState{State: history.StateClosed}
		if err := rows.Scan(&id, &sent.Closings); err != nil {
			return err
		}
		final.Orders[history.InQueue(id, mailQueue)] = sent
	}
	return rows.Err()
}

// emptyQueues lists the messages that lie in any queue. Of what strangers sent, some has to be in quarantine
// since it was over their quota.
func (w *world) emptyQueues(final *history.Final) error {
	refused := false
	err := w.channel(func(ch *amqp.Channel) error {
		names := []string{queue, slowQueue, plainQueue, mailQueue, strangersQueue}
		if w.hasPython() {
			names = append(names, pythonQueue)
		}
		for _, q := range w.topology.Queues() {
			if q.Name != w.topology.Installation() {
				names = append(names, q.Name)
			}
		}
		for _, name := range names {
			for {
				d, ok, err := ch.Get(name, true)
				if err != nil {
					return fmt.Errorf("look into %s: %w", name, err)
				}
				if !ok {
					break
				}
				reason := fmt.Sprint(d.Headers[wire.HeaderError])
				if string(d.Body) == forgedBody { // its publisher can have it end there
					refused = refused || strings.Contains(reason, redisbridge.ErrQuota.Error())
					continue
				}
				if name == w.topology.Quarantine() && !w.sent(&d) {
					w.surprise(fmt.Sprintf("order %s: what lies in quarantine is not what was sent", orderOf(d.Body)))
				}
				final.Leftover = append(final.Leftover, history.Left{Where: name, Order: orderOf(d.Body), Reason: reason})
			}
		}
		return nil
	})
	if err == nil && !refused {
		w.surprise("no flood of a stranger was over its quota")
	}
	return err
}

// sent says whether a message is what was sent for its order.
func (w *world) sent(d *amqp.Delivery) bool {
	n, ok := orderNumber(orderOf(d.Body))
	o := planOrder(w.seed, n)
	return ok && intact(&o, w.topology.Message(d))
}

// lookIntoRedis lists what is still parked. What is kept there for its ID's sake has
// been with the broker.
func (w *world) lookIntoRedis(final *history.Final) error {
	return w.store(func(c *redis.Client) error {
		keys := c.Scan(w.ctx, 0, "{"+prefix+":*}:env:*", 1000).Iterator()
		for keys.Next(w.ctx) {
			if strings.HasSuffix(keys.Val(), "env:others") { // which has names of records, and no records
				continue
			}
			ids, err := c.HKeys(w.ctx, keys.Val()).Result()
			if err != nil {
				return err
			}
			shard, _, _ := strings.Cut(keys.Val(), "env:")
			for _, id := range ids {
				switch err := c.ZScore(w.ctx, shard+"kept", id).Err(); {
				case err == nil:
					continue
				case !errors.Is(err, redis.Nil):
					return err
				}
				w.surprise(fmt.Sprintf("order %s is still parked", id))
				final.Leftover = append(final.Leftover, history.Left{Where: "redis", Order: id})
			}
		}
		return keys.Err()
	})
}

// askRedis notes down where the keys in Redis contradict each other, and which of the orders
// whose cancelling had no answer are cancelled.
func (w *world) askRedis(final *history.Final) error {
	events, err := history.Read(w.historyDir())
	if err != nil {
		return err
	}
	return w.store(func(c *redis.Client) error {
		park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: c, Topology: w.topology})
		if err != nil {
			return err
		}
		// Redis was killed, which may leave wrong counts behind.
		if final.Contradictions, _, err = park.Verify(w.ctx); err != nil {
			return err
		}
		final.Tombstones = []string{}
		for _, e := range events {
			if e.Kind != history.Cancel || slices.Contains(final.Tombstones, e.Order) {
				continue
			}
			id := history.OrderOf(e.Order)
			entry, messageID := "", id
			if n, ok := orderNumber(id); ok {
				o := planOrder(w.seed, n)
				entry, messageID = o.entry, o.messageID()
			}
			all, err := park.OfEntry(entry).GetAll(w.ctx, messageID)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(all, func(one redisbridge.MessageState) bool { return one.State == redisbridge.StateCancelled }) {
				final.Tombstones = append(final.Tombstones, e.Order)
			}
		}
		return nil
	})
}

// interval is an act as it is kept with the history.
type interval struct {
	Name  string `json:"name"`
	Began int64  `json:"began"` // Unix microseconds
}

const actsFile = "acts.json"

func saveActs(dir string, acts []act) error {
	var list []interval
	for _, a := range acts {
		list = append(list, interval{a.name, a.began})
	}
	content, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, actsFile), content, 0o600)
}

// Judge reads the history that a run has left in dir and decides over it.
func Judge(dir string) (*history.Report, error) {
	events, err := history.Read(filepath.Join(dir, "history"))
	if err != nil {
		return nil, err
	}
	final, err := history.ReadFinal(dir)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(dir, actsFile))
	if err != nil {
		return nil, err
	}
	var acts []interval
	if err := json.Unmarshal(content, &acts); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, actsFile), err)
	}
	// An order and a fault belong to the act in which they began.
	for i := range events {
		if k := events[i].Kind; k != history.Placed && k != history.Fault && k != history.Mended {
			continue
		}
		for _, a := range acts {
			if events[i].At >= a.Began || events[i].Act == "" {
				events[i].Act = a.Name
			}
		}
	}
	return history.Check(events, *final), nil
}
