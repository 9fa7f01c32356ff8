package store

import (
	"crypto/sha1" //nolint:gosec // spreads IDs evenly; nothing is kept secret by it
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/delaybridge/delaybridge/topology"
)

// A slot names one of the 131,072 small hashes that a shard's envelopes are spread
// over: the first 17 bits of the ID's SHA-1, as four hexadecimal digits and a binary
// one. lua/lib.lua makes the same of its SHA-1, which is text there.
type slot [5]byte

// slotsPerShard is how many slots there are, and slotNumber is one of them.
const slotsPerShard = 1 << 17

func slotNumber(n int) (s slot) {
	copy(s[:], fmt.Sprintf("%04x%d", n>>1, n&1))
	return s
}

// number is the inverse of slotNumber.
func (s slot) number() int64 {
	n, _ := strconv.ParseInt(string(s[:4]), 16, 64)
	return 2*n + int64(s[4]-'0')
}

// shardKeys are the keys of one shard. All carry one hash tag, so that a Redis
// Cluster keeps them on one node and a script may use them together.
type shardKeys struct {
	number    string // of the shard, with its generation in front where that is not the first
	schedule  string // what is to be promoted when, in parts; see lua/lib.lua
	state     string // who owns the shard, and for when its alarm is set
	claimed   string // IDs being promoted, scored by their instant of promotion and version
	kept      string // IDs of records that are to be forgotten, scored by when
	envelopes string // base of the keys of the envelopes
	usage     string // how much is stored of each entry; see lua/lib.lua
	moving    string // what is between this shard and those of the next generation; see lua/take.lua
	groups    string // messages with a group, scored by when to look at them; and base of the keys of the groups
}

func keysOf(t *topology.Topology, generation, shard int) shardKeys {
	number := strconv.Itoa(shard)
	if generation > 0 {
		number = strconv.Itoa(generation) + "." + number
	}
	tag := "{" + t.Prefix() + ":" + number + "}:"
	return shardKeys{
		number:    number,
		schedule:  tag + "schedule",
		state:     tag + "state",
		claimed:   tag + "claimed",
		kept:      tag + "kept",
		envelopes: tag + "env", // short: there are many
		usage:     tag + "usage",
		moving:    tag + "moving",
		groups:    tag + "groups",
	}
}

// A Shard is one of a generation. Methods of the Store that are about one shard take it from
// [Store.Shards].
type Shard struct {
	keys       shardKeys
	generation int
	number     int
	clock      *Clock
	frontier   atomic.Int64 // what is in slots before it is known to have gone to the next generation
}

// Number is that of the shard within its generation, from 0 on: it uses the lanes with that number.
func (s *Shard) Number() int { return s.number }

// Generation is how often the number of shards had changed before there was this one.
func (s *Shard) Generation() int { return s.generation }

// Name tells the shard from all others of its prefix.
func (s *Shard) Name() string { return s.keys.number }

// view is where the messages of a prefix are, as far as is known.
type view struct {
	layout  Layout
	shards  []*Shard
	next    []*Shard      // while messages move there
	changed chan struct{} // closed when there is another view
}

// all returns the shards from which messages move before those that they move to.
func (v *view) all() []*Shard { return slices.Concat(v.shards, v.next) }

// locate returns the shard of a key, as far as is known, and its slot.
func (v *view) locate(key string) (*Shard, slot) {
	n, slot := locate(key, len(v.shards))
	shard := v.shards[n]
	if v.next != nil && slot.number() < shard.frontier.Load() {
		n, _ = locate(key, len(v.next))
		shard = v.next[n]
	}
	return shard, slot
}

// generation returns the shards of one, the same ones each time.
func (s *Store) generation(generation, n int) []*Shard {
	all := s.generations[generation]
	for len(all) < n {
		all = append(all, &Shard{keys: keysOf(s.config.Topology, generation, len(all)), generation: generation, number: len(all), clock: NewClock()})
	}
	s.generations[generation] = all
	return all[:n:n]
}

// What a key of a record begins with that is not simply an ID; lua/lib.lua has the same.
const (
	keyOfOther = '\x01' // another message with the ID: a name follows, and the first one's key
	keyOfEntry = '\x02' // the name of an entry follows, the same byte again, and the ID
)

// keyOf returns the key of the first message with an ID in an entry. In the default entry it
// is the ID. A slot and a shard are those of the key.
func keyOf(entry, id string) string {
	if entry == "" && (id == "" || id[0] != keyOfOther && id[0] != keyOfEntry) {
		return id
	}
	return string(rune(keyOfEntry)) + entry + string(rune(keyOfEntry)) + id
}

// idOf returns the ID in a key.
func idOf(key string) string {
	if key != "" && key[0] == keyOfOther && len(key) > digestLen {
		key = key[1+digestLen:]
	}
	if key == "" || key[0] != keyOfEntry {
		return key
	}
	_, id, _ := strings.Cut(key[1:], string(rune(keyOfEntry)))
	return id
}

// entryOf returns the entry in a key.
func entryOf(key string) string {
	if key != "" && key[0] == keyOfOther && len(key) > digestLen {
		key = key[1+digestLen:]
	}
	if key == "" || key[0] != keyOfEntry {
		return ""
	}
	entry, _, _ := strings.Cut(key[1:], string(rune(keyOfEntry)))
	return entry
}

// group returns the key of a group of an entry; lua/lib.lua makes the same.
func (k shardKeys) group(entry, name string) string { return k.groups + ":" + keyOf(entry, name) }

// locate returns the shard of a key, and its slot within the shard. Other messages with its
// ID are in the same shard.
func locate(key string, shards int) (shard int, s slot) {
	sum := sha1.Sum([]byte(key)) //nolint:gosec // see import
	hex.Encode(s[:4], sum[:2])
	s[4] = '0' + sum[2]>>7
	shard = int(binary.BigEndian.Uint32(sum[4:8]) % uint32(shards)) //nolint:gosec // at most MaxShards
	return shard, s
}

// bucketMS is how long a bucket of the schedule is, in ms; lua/lib.lua has the same.
const bucketMS = 2000

// part returns the key of a part of the schedule, and bucket that of one of its
// buckets.
func (k shardKeys) part(part string) string { return k.schedule + ":" + part }

// counts returns the key of the numbers of entries of the parts.
func (k shardKeys) counts() string { return k.schedule + ":counts" }

func (k shardKeys) bucket(part string, number int64) string {
	return k.part(part) + ":" + strconv.FormatInt(number, 10)
}

// slot returns the key of a slot.
func (k shardKeys) slot(s slot) string { return k.envelopes + ":" + string(s[:]) }

func registerKey(t *topology.Topology) string { return "{" + t.Prefix() + "}:bridges" }
func reportsKey(t *topology.Topology) string  { return "{" + t.Prefix() + "}:reports" }
func layoutKey(t *topology.Topology) string   { return "{" + t.Prefix() + "}:layout" }

// lostKey has the last loss that a bridge has seen, for a day.
func lostKey(t *topology.Topology) string { return "{" + t.Prefix() + "}:lost" }

// auditKey has the stream of operators' actions.
func auditKey(t *topology.Topology) string { return "{" + t.Prefix() + "}:audit" }

// wakeChannel carries the name of a shard that has something to do earlier than expected, or
// wakeAll, or wakeLayout, or paceWord and how far a bridge is.
func wakeChannel(t *topology.Topology) string { return t.Prefix() + ":wake" }

const (
	wakeAll    = "bridges" // the register of bridges has changed; see lua/attend.lua
	wakeLayout = "layout"  // there is another number of shards, or there is to be
)
