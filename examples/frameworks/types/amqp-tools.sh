#!/bin/sh
# amqp-publish has one type for all, and sends no message ID: the body takes its place.
set -eu
for kind in integer=1000 float=1000.0 text=1000 month=2592000000; do
	amqp-publish -u "$DELAYBRIDGE_AMQP_URL" -e delaybridge.entry -r types -H "x-delay: ${kind#*=}" -b "amqp-tools-${kind%=*}"
done
