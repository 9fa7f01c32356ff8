package format

import (
	"crypto/sha1" //nolint:gosec // spreads IDs evenly; nothing is kept secret by it
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/topology"
)

// A Slot names one of the 131,072 small hashes that a shard's envelopes are spread
// over: the first 17 bits of the ID's SHA-1, as four hexadecimal digits and a binary
// one. lua/lib.lua makes the same of its SHA-1, which is text there.
type Slot [5]byte

// SlotsPerShard is how many slots there are.
const SlotsPerShard = 1 << 17

// SlotNumber is one of them.
func SlotNumber(n int) (s Slot) {
	copy(s[:], fmt.Sprintf("%04x%d", n>>1, n&1))
	return s
}

// Number is the inverse of [SlotNumber].
func (s Slot) Number() int64 {
	n, _ := strconv.ParseInt(string(s[:4]), 16, 64)
	return 2*n + int64(s[4]-'0')
}

// ShardKeys are the keys of one shard. All carry one hash tag, so that a Redis
// Cluster keeps them on one node and a script may use them together.
type ShardKeys struct {
	Number    string // of the shard, with its generation in front where that is not the first
	Schedule  string // what is to be promoted when, in parts; see lua/lib.lua
	State     string // who owns the shard, and for when its alarm is set
	Claimed   string // IDs being promoted, scored by their instant of promotion and version
	Kept      string // IDs of records that are to be forgotten, scored by when
	Envelopes string // base of the keys of the envelopes
	Usage     string // how much is stored of each entry; see lua/lib.lua
	Moving    string // what is between this shard and those of the next generation; see lua/take.lua
	Groups    string // messages with a group, scored by when to look at them; and base of the keys of the groups
}

// KeysOf returns the keys of a shard of a generation.
func KeysOf(t *topology.Topology, generation, shard int) ShardKeys {
	number := strconv.Itoa(shard)
	if generation > 0 {
		number = strconv.Itoa(generation) + "." + number
	}
	tag := "{" + t.Prefix() + ":" + number + "}:"
	return ShardKeys{
		Number:    number,
		Schedule:  tag + "schedule",
		State:     tag + "state",
		Claimed:   tag + "claimed",
		Kept:      tag + "kept",
		Envelopes: tag + "env", // short: there are many
		Usage:     tag + "usage",
		Moving:    tag + "moving",
		Groups:    tag + "groups",
	}
}

// What a key of a record begins with that is not simply an ID; lua/lib.lua has the same.
const (
	KeyOfOther = '\x01' // another message with the ID: a name follows, and the first one's key
	keyOfEntry = '\x02' // the name of an entry follows, the same byte again, and the ID
)

// KeyOf returns the key of the first message with an ID in an entry. In the default entry it
// is the ID. A slot and a shard are those of the key.
func KeyOf(entry, id string) string {
	if entry == "" && (id == "" || id[0] != KeyOfOther && id[0] != keyOfEntry) {
		return id
	}
	return string(rune(keyOfEntry)) + entry + string(rune(keyOfEntry)) + id
}

// IDOf returns the ID in a key.
func IDOf(key string) string {
	if key != "" && key[0] == KeyOfOther && len(key) > DigestLen {
		key = key[1+DigestLen:]
	}
	if key == "" || key[0] != keyOfEntry {
		return key
	}
	_, id, _ := strings.Cut(key[1:], string(rune(keyOfEntry)))
	return id
}

// EntryOf returns the entry in a key.
func EntryOf(key string) string {
	if key != "" && key[0] == KeyOfOther && len(key) > DigestLen {
		key = key[1+DigestLen:]
	}
	if key == "" || key[0] != keyOfEntry {
		return ""
	}
	entry, _, _ := strings.Cut(key[1:], string(rune(keyOfEntry)))
	return entry
}

// Group returns the key of a group of an entry; lua/lib.lua makes the same.
func (k ShardKeys) Group(entry, name string) string { return k.Groups + ":" + KeyOf(entry, name) }

// Locate returns the shard of a key, and its slot within the shard. Other messages with its
// ID are in the same shard.
func Locate(key string, shards int) (shard int, s Slot) {
	sum := sha1.Sum([]byte(key)) //nolint:gosec // see import
	hex.Encode(s[:4], sum[:2])
	s[4] = '0' + sum[2]>>7
	shard = int(binary.BigEndian.Uint32(sum[4:8]) % uint32(shards)) //nolint:gosec // at most MaxShards
	return shard, s
}

// BucketMS is how long a bucket of the schedule is, in ms; lua/lib.lua has the same.
const BucketMS = 2000

// Part returns the key of a part of the schedule.
func (k ShardKeys) Part(part string) string { return k.Schedule + ":" + part }

// Counts returns the key of the numbers of entries of the parts.
func (k ShardKeys) Counts() string { return k.Schedule + ":counts" }

// Bucket returns the key of a bucket of a part.
func (k ShardKeys) Bucket(part string, number int64) string {
	return k.Part(part) + ":" + strconv.FormatInt(number, 10)
}

// Slot returns the key of a slot.
func (k ShardKeys) Slot(s Slot) string { return k.Envelopes + ":" + string(s[:]) }

// RegisterKey has the bridges alive, scored by until when.
func RegisterKey(t *topology.Topology) string { return "{" + t.Prefix() + "}:bridges" }

// ReportsKey has their reports.
func ReportsKey(t *topology.Topology) string { return "{" + t.Prefix() + "}:reports" }

// LayoutKey has how messages are spread over shards, and whose they are.
func LayoutKey(t *topology.Topology) string { return "{" + t.Prefix() + "}:layout" }

// LostKey has the last loss that a bridge has seen, for a day.
func LostKey(t *topology.Topology) string { return "{" + t.Prefix() + "}:lost" }

// AuditKey has the stream of operators' actions.
func AuditKey(t *topology.Topology) string { return "{" + t.Prefix() + "}:audit" }

// WakeChannel carries the name of a shard that has something to do earlier than expected, or
// WakeAll, or WakeLayout, or what store.Store.Tell was given, such as how far a bridge is.
func WakeChannel(t *topology.Topology) string { return t.Prefix() + ":wake" }

// What the channel carries beside names of shards.
const (
	WakeAll    = "bridges" // the register of bridges has changed; see lua/attend.lua
	WakeLayout = "layout"  // there is another number of shards, or there is to be
)

// FirstOf returns the key of the first message with the ID of a key.
func FirstOf(key string) string {
	if key != "" && key[0] == KeyOfOther && len(key) > DigestLen {
		return key[1+DigestLen:]
	}
	return key
}
