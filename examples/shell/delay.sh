#!/bin/sh
# Publishes an order that is due in a moment, and says when it came out.
#
#     delay.sh [MILLISECONDS]
#
# Needs the C tools (Debian: amqp-tools), servers, and a bridge: eval "$(make -s up)"
# They neither wait for confirms nor set a queue's arguments, so they are for
# trying things out.
set -eu
delay=${1:-2500}
prefix=${DELAYBRIDGE_PREFIX:-delaybridge}
url=${DELAYBRIDGE_AMQP_URL:-amqp://guest:guest@127.0.0.1:5672/}
queue=$prefix.example.shell
order=$(cat /proc/sys/kernel/random/uuid)
now() { date +%s%3N; }

amqp-declare-queue -u "$url" -d -q "$queue" >/dev/null
began=$(now)
# The queue is bound when amqp-consume starts. The tools send every header as a
# string, and know no message ID: so the order is the body.
amqp-publish -u "$url" -e "$prefix.entry" -r order.shell -p -H "x-delay: $delay" -b "$order"
got=
while [ "$got" != "$order" ]; do # another one was left by an earlier run
	got=$(timeout $((delay / 1000 + 60)) amqp-consume -u "$url" -q "$queue" -e "$prefix.ready" -r order.shell -c 1 cat)
done
echo "order $order came out after $(($(now) - began)) ms"
