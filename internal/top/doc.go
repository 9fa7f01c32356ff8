// Package top is the picture that `delaybridge top` shows: what is known of Redis and
// RabbitMQ goes in as one [Look] after another, and a [Picture] comes out, which [Render]
// puts on a screen. It does no I/O: internal/top/sampler looks.
package top
