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
order=$(cat /proc/sys/kernel/random/uuid)
got=$(mktemp)
trap 'rm -f "$got"' EXIT
now() { date +%s%3N; }

# What is due is in the ready exchange. The queue is this run's own, and has to be
# bound before the order is due.
timeout $((delay / 1000 + 60)) amqp-consume -u "$url" -x -e "$prefix.ready" -r "order.$order" -c 1 cat >"$got" &
sleep 1
began=$(now)
# The tools send every header as a string, and know no message ID.
amqp-publish -u "$url" -e "$prefix.entry" -r "order.$order" -p -H "x-delay: $delay" -b "$order"
wait $!
if [ "$(cat "$got")" != "$order" ]; then
	echo "order $order did not come out" >&2
	exit 1
fi
echo "order $order came out after $(($(now) - began)) ms"
