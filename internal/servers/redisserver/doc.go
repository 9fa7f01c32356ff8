// Package redisserver starts Redis or Valkey, as private nodes or as containers: a
// server alone, a Redis Cluster, or a primary and its replica that Sentinels watch. A
// [Node] is one server, which can be killed, paused and restarted ([lifecycle.Server]),
// made a replica and promoted; a [Store] is all of a layout, seen as one.
package redisserver
