#!/usr/bin/env python3
"""Publishes an order that is due in a moment, and says when it came out.

    delay.py [MILLISECONDS]

Needs pika (Debian: python3-pika), servers, and a bridge: eval "$(make -s up)"
"""

import os
import sys
import time
import uuid

import pika

delay_ms = int(sys.argv[1]) if len(sys.argv) > 1 else 2500
prefix = os.environ.get("DELAYBRIDGE_PREFIX", "delaybridge")
url = os.environ.get("DELAYBRIDGE_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
queue = prefix + ".example.python"

connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()

# What is due is in the ready exchange. A queue like this one loses nothing, on
# RabbitMQ 4 neither (docs/wire-contract.md).
channel.queue_declare(queue, durable=True, arguments={
    "x-queue-type": "quorum",
    "x-dead-letter-exchange": prefix + ".quarantine",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
})
channel.queue_bind(queue, prefix + ".ready", "order.python")

# The header is all that tells a delayed message from another one.
order = str(uuid.uuid4())
channel.confirm_delivery()  # basic_publish returns once the broker has the message
began = time.monotonic()
channel.basic_publish(
    prefix + ".entry", "order.python", b"{}",
    pika.BasicProperties(message_id=order, delivery_mode=2, headers={"x-delay": delay_ms}),
    mandatory=True)

for delivery, properties, body in channel.consume(queue, inactivity_timeout=delay_ms / 1000 + 60):
    if delivery is None:
        sys.exit(f"order {order} did not come out")
    channel.basic_ack(delivery.delivery_tag)
    if properties.message_id == order:
        print(f"order {order} came out after {(time.monotonic() - began) * 1000:.0f} ms")
        break
connection.close()
