package redisbridge_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A slotOwner is a node of a Redis Cluster and a hash slot it has.
type slotOwner struct {
	*redis.Client
	slot int64
}

// slotOwners finds the slot of each shard, and the node that has it.
func (b *bench) slotOwners(t *testing.T, operator operator) []slotOwner {
	t.Helper()
	var all []slotOwner
	for n := range b.topology.Shards() {
		slot, err := operator[0].ClusterKeySlot(t.Context(), fmt.Sprintf("{%s:%d}", b.Prefix, n)).Result()
		if err != nil {
			t.Fatal(err)
		}
		shards, err := operator[0].ClusterShards(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, shard := range shards {
			here := slices.ContainsFunc(shard.Slots, func(r redis.SlotRange) bool { return r.Start <= slot && slot <= r.End })
			for _, server := range operator {
				if here && strings.HasSuffix(server.Options().Addr, ":"+strconv.FormatInt(shard.Nodes[0].Port, 10)) {
					all = append(all, slotOwner{server, slot})
				}
			}
		}
	}
	if len(all) != b.topology.Shards() {
		t.Fatalf("owners of %d slots found, want %d", len(all), b.topology.Shards())
	}
	return all
}

// do says CLUSTER and more to the owner.
func (o slotOwner) do(t *testing.T, command ...any) {
	t.Helper()
	if err := o.Do(t.Context(), append([]any{"CLUSTER"}, command...)...).Err(); err != nil {
		t.Fatalf("cluster %v: %v", command, err)
	}
}

// disown has the shards' slots served by nobody.
func disown(t *testing.T, b *bench, operator operator) {
	t.Helper()
	b.lost = b.slotOwners(t, operator)
	for _, o := range b.lost {
		o.do(t, "DELSLOTS", o.slot)
	}
}

func own(t *testing.T, b *bench, _ operator) {
	t.Helper()
	for _, o := range b.lost {
		o.do(t, "ADDSLOTS", o.slot)
	}
}

// beginMigration has the shards' slots be about to move to another node: keys
// that are not there are to be looked for elsewhere.
func beginMigration(t *testing.T, b *bench, operator operator) {
	t.Helper()
	for _, o := range b.slotOwners(t, operator) {
		for _, other := range operator {
			if other != o.Client {
				target, err := other.ClusterMyID(t.Context()).Result()
				if err != nil {
					t.Fatal(err)
				}
				o.do(t, "SETSLOT", o.slot, "MIGRATING", target)
				break
			}
		}
	}
}

func endMigration(t *testing.T, b *bench, operator operator) {
	t.Helper()
	for _, o := range b.slotOwners(t, operator) {
		o.do(t, "SETSLOT", o.slot, "STABLE")
	}
}

// moveTo moves the slot to another node, key by key.
func (o slotOwner) moveTo(t *testing.T, target *redis.Client, all operator) {
	t.Helper()
	ids := map[*redis.Client]string{o.Client: "", target: ""}
	for node := range ids {
		id, err := node.ClusterMyID(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		ids[node] = id
	}
	slotOwner{target, o.slot}.do(t, "SETSLOT", o.slot, "IMPORTING", ids[o.Client])
	o.do(t, "SETSLOT", o.slot, "MIGRATING", ids[target])
	host, port, err := net.SplitHostPort(target.Options().Addr)
	if err != nil {
		t.Fatal(err)
	}
	for {
		keys, err := o.ClusterGetKeysInSlot(t.Context(), int(o.slot), 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		command := []any{"MIGRATE", host, port, "", 0, patience.Milliseconds(), "KEYS"}
		for _, key := range keys {
			command = append(command, key)
		}
		if err := o.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range append(operator{target, o.Client}, all...) {
		slotOwner{node, o.slot}.do(t, "SETSLOT", o.slot, "NODE", ids[target])
	}
}
