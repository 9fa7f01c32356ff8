package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// eachServer does something with every server that takes writes, and gathers what it
// finds, in the order of their addresses.
func eachServer(ctx context.Context, client redis.UniversalClient, do func(context.Context, redisNode) ([]Finding, error)) ([]Finding, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return do(ctx, redisNode{client, addressOf(ctx, client)})
	}
	var mu sync.Mutex
	found := map[string][]Finding{}
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		findings, err := do(ctx, redisNode{node, node.Options().Addr})
		mu.Lock()
		defer mu.Unlock()
		found[node.Options().Addr] = findings
		return err
	})
	var addresses []string
	for address := range found {
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	var findings []Finding
	for _, address := range addresses {
		findings = append(findings, found[address]...)
	}
	return findings, err
}

// redisNode is one server.
type redisNode struct {
	redis.UniversalClient
	address string
}

func (n redisNode) subject() string { return "Redis at " + n.address }

// cli is the beginning of a command for the server. The password is left to the reader.
func (n redisNode) cli() string { return cli(n.address) }

func cli(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "redis-cli"
	}
	return "redis-cli -h " + printable.Shell(host) + " -p " + printable.Shell(port)
}

// addressOf returns where the server is; behind Sentinels, the server says so itself.
func addressOf(ctx context.Context, client redis.UniversalClient) string {
	single, ok := client.(*redis.Client)
	if !ok {
		return ""
	}
	if address := single.Options().Addr; strings.Contains(address, ":") {
		return address
	}
	said, err := client.ClientInfo(ctx).Result()
	if err != nil {
		return ""
	}
	return said.LAddr
}

// redisName and redisCLI are for when the server does not answer.
func redisName(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		return "Redis at " + c.Options().Addr
	case *redis.ClusterClient:
		return "Redis Cluster at " + strings.Join(c.Options().Addrs, ", ")
	}
	return "Redis"
}

func redisCLI(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		return cli(c.Options().Addr)
	case *redis.ClusterClient:
		if addresses := c.Options().Addrs; len(addresses) > 0 {
			return cli(addresses[0])
		}
	}
	return "redis-cli"
}

// info reads what INFO says.
func (n redisNode) info(ctx context.Context) (map[string]string, error) {
	text, err := n.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	said := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok {
			said[key] = value
		}
	}
	return said, lines.Err()
}

const fullPercent = 90

// redisState judges what each server says of itself.
func (x *examination) redisState(ctx context.Context) ([]Finding, error) {
	return eachServer(ctx, x.Redis, func(ctx context.Context, n redisNode) ([]Finding, error) {
		said, err := n.info(ctx)
		if err != nil {
			return nil, fmt.Errorf("INFO: %w", err)
		}
		return judgeRedis(n.subject(), n.cli(), said), nil
	})
}

// judgeRedis judges what INFO says.
func judgeRedis(subject, cli string, said map[string]string) []Finding {
	findings := judgeRedisVersion(subject, said["redis_version"], said["valkey_version"])
	if said["role"] == "slave" {
		findings = append(findings, find(redisReplica, subject, "a replica of "+net.JoinHostPort(said["master_host"], said["master_port"]), cli+" REPLICAOF NO ONE"))
	}
	if said["aof_enabled"] == "1" && said["aof_last_write_status"] == "err" {
		findings = append(findings, find(redisWriteFailed, subject, "the last write to the append-only file failed", cli+" BGREWRITEAOF"))
	}
	if said["rdb_last_bgsave_status"] == "err" {
		findings = append(findings, find(redisWriteFailed, subject, "the last snapshot failed", cli+" BGSAVE"))
	}
	used, _ := strconv.ParseInt(said["used_memory"], 10, 64)
	most, _ := strconv.ParseInt(said["maxmemory"], 10, 64)
	switch raise := fmt.Sprintf("%s CONFIG SET maxmemory %d", cli, 2*max(used, most)); {
	case most > 0 && used >= most:
		findings = append(findings, find(redisFull, subject, fmt.Sprintf("%s used of %s (maxmemory)", bytes(used), bytes(most)), raise))
	case most > 0 && used*100 >= most*fullPercent:
		findings = append(findings, find(redisNearlyFull, subject, fmt.Sprintf("%s used of %s (maxmemory)", bytes(used), bytes(most)), raise))
	}
	return findings
}

// judgeRedisVersion knows Valkey, which calls itself Redis 7.2 as well.
func judgeRedisVersion(subject, ofRedis, ofValkey string) []Finding {
	const oldestRedis, newestRedis, oldestValkey, newestValkey = 7, 8, 8, 9
	name, text, oldest, newest := "Redis", ofRedis, oldestRedis, newestRedis
	if ofValkey != "" {
		name, text, oldest, newest = "Valkey", ofValkey, oldestValkey, newestValkey
	}
	if v, ok := parseVersion(text); ok && v.major >= oldest && v.major <= newest {
		return nil
	}
	f := find(redisVersion, subject, name+" "+text)
	if v, ok := parseVersion(ofRedis); ok && v.major < oldestRedis {
		f.Severity, f.Means = Problem, "it cannot compile the scripts of delaybridge: nothing is parked or promoted"
	}
	return []Finding{f}
}

// redisSettings compares each server's settings with docs/operations.md.
func (x *examination) redisSettings(ctx context.Context) ([]Finding, error) {
	return eachServer(ctx, x.Redis, func(ctx context.Context, n redisNode) (findings []Finding, err error) {
		appending := true
		for _, s := range []struct {
			name, want, code string
			atLeast          bool
		}{
			{"maxmemory-policy", "noeviction", redisEvicts, false},
			{"appendonly", "yes", redisAppendOnly, false},
			{"appendfsync", "always", redisAppendFsync, false},
			{"no-appendfsync-on-rewrite", "no", redisRewriteFsync, false},
			{"hash-max-listpack-value", "4096", redisListpack, true},
			{"hash-max-listpack-entries", "128", redisListpack, true},
			{"zset-max-listpack-entries", "128", redisListpack, true},
		} {
			values, err := n.ConfigGet(ctx, s.name).Result()
			found, told := values[s.name]
			if err == nil && !told && s.code == redisListpack {
				continue // of a version that is a finding of its own
			}
			if err == nil && !told {
				err = fmt.Errorf("CONFIG GET %s: no answer", s.name)
			}
			if err != nil && ctx.Err() != nil {
				return findings, err
			}
			if err != nil {
				return append(findings, x.settingsUnseen(ctx, n, err)), nil
			}
			fine := found == s.want
			if s.atLeast {
				have, _ := strconv.Atoi(found)
				want, _ := strconv.Atoi(s.want)
				fine = have >= want
			}
			if s.code == redisAppendOnly {
				appending = fine
			}
			if fine || !appending && (s.code == redisAppendFsync || s.code == redisRewriteFsync) {
				continue // without the file, how it is flushed does not matter
			}
			findings = append(findings, find(s.code, n.subject(), fmt.Sprintf("%s is %s, want %s", s.name, found, s.want),
				n.cli()+" CONFIG SET "+s.name+" "+s.want, n.cli()+" CONFIG REWRITE"))
		}
		return findings, nil
	})
}

// settingsUnseen is for servers that hide their settings. Where a user of ours lacks
// the permission, it can be given.
func (x *examination) settingsUnseen(ctx context.Context, n redisNode, err error) Finding {
	f := find(redisUnseen, n.subject(), plain(err))
	if strings.HasPrefix(err.Error(), "NOPERM ") {
		if user, err := n.Do(ctx, "ACL", "WHOAMI").Text(); err == nil {
			f.Commands = append(f.Commands, n.cli()+" ACL SETUSER "+printable.Shell(user)+" '+config|get' +info")
		} else {
			f.Commands = append(f.Commands, n.cli()+" ACL SETUSER USER '+config|get' +info")
		}
	}
	return f
}

// redisUsers finds other users who may write every key, those of the bridge, too, and so are of
// no role. Where Redis refuses to tell of users, it finds nothing.
func (x *examination) redisUsers(ctx context.Context) ([]Finding, error) {
	findings, err := eachServer(ctx, x.Redis, func(ctx context.Context, n redisNode) (findings []Finding, err error) {
		me, err := n.Do(ctx, "ACL", "WHOAMI").Text()
		if err != nil {
			return nil, err
		}
		users, err := n.ACLList(ctx).Result()
		if err != nil {
			return nil, err
		}
		for _, line := range users {
			f, suspect := n.suspect(me, strings.Fields(line))
			if !suspect {
				continue
			}
			wide, err := n.mayWriteAll(ctx, strings.Fields(line)[1], x.Topology.Prefix())
			if err != nil {
				return findings, err
			}
			if wide {
				findings = append(findings, f)
			}
		}
		return findings, nil
	})
	if _, refused := errors.AsType[redis.Error](err); refused {
		return findings, nil
	}
	return findings, err
}

// suspect is the finding of a user who may write every key, by a line of ACL LIST: user, its name,
// and its rules. The user default, with a password, is the administrators'.
func (n redisNode) suspect(me string, user []string) (f Finding, is bool) {
	if len(user) < 3 || user[2] != "on" {
		return Finding{}, false
	}
	subject := fmt.Sprintf("user %s of %s", user[1], n.subject())
	command := n.cli() + " ACL SETUSER " + printable.Shell(user[1])
	if user[1] != "default" {
		return find(redisUserTooWide, subject, "it may write every key", command+" clearselectors resetkeys '~KEYS'"), user[1] != me
	}
	host, _, _ := net.SplitHostPort(n.address)
	return find(redisUserTooWide, subject, "it may write every key, and needs no password", command+" resetpass '>PASSWORD'"),
		slices.Contains(user, "nopass") && !isHere(host)
}

// mayWriteAll reports whether a user may change a key of the bridge, and in the same way any other
// key, which no role may.
func (n redisNode) mayWriteAll(ctx context.Context, user, prefix string) (bool, error) {
	for _, change := range [][]any{{"DEL"}, {"SET", "x"}, {"HSET", "x", "x"}} {
		permitted := 0
		for _, key := range []string{"{" + prefix + ":0}:state", "anything"} {
			dryRun := append([]any{"ACL", "DRYRUN", user, change[0], key}, change[1:]...)
			answer, err := n.Do(ctx, dryRun...).Text()
			if err != nil {
				return false, err
			}
			if answer == "OK" { // otherwise it says why not
				permitted++
			}
		}
		if permitted == 2 {
			return true, nil
		}
	}
	return false, nil
}

// inspection of what Redis has of bridges.
func (x *examination) inspection(ctx context.Context) (redisbridge.Inspection, error) {
	return redisbridge.Inspect(ctx, x.Redis, x.Topology)
}
