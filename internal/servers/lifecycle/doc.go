// Package lifecycle is what all servers have in common, whatever they are and whether
// a process or a container runs them: they are started, watched until they answer,
// killed, paused, restarted and removed, at ports that stay theirs. A [Watchdog]
// cleans up after each, so that none outlives the process that started it, not even
// after kill -9.
package lifecycle
