package redisbridge

import (
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

// NewClient returns a client for a URL. It does no I/O, but to read files that hold the URL or certificates.
//
//	redis://user:password@host:6379/0                     a server; rediss:// for TLS
//	redis://user:password@host:6379?addr=host:6379&...    a Redis Cluster, by some of its nodes
//	redis://host:26379/0?master_name=name&addr=host:26379&username=user&password=password
//	                                                      a server that Sentinels watch, by some of them
//	file:///run/secrets/redis-url                         a file that has one of these as its only line
//
// A URL of rediss:// may have the parameters cacertfile, certfile, keyfile (paths of PEM files, read now and anew for
// every connection), server_name_indication and tls_min_version (1.2, the default, or 1.3).
//
// A file is read anew for every connection: the user and the password of Redis are those that it
// has then. The rest of its URL, the password of Sentinels too, is that of the start.
//
// A user and a password in front of the Sentinel's host are for the Sentinels.
//
// The client sends each command once. The library would otherwise repeat it
// after a lost connection, too, and tell only how the last repetition fared: a
// message whose first answer was lost looks never sent, or parked before by
// another client. In a Redis Cluster it follows MOVED, by which a node says that
// it has done nothing, but not ASK: while the keys of a slot move one by one,
// a script would work on a part of them.
func NewClient(rawURL string) (redis.UniversalClient, error) { return store.NewClient(rawURL) }
