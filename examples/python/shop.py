#!/usr/bin/env python3
"""A shop whose orders are closed when they are not paid in time.

    shop.py place ORDER DELAY_MS   an order, and the message that will close it, in one transaction
    shop.py pay ORDER              paid, and the message cancelled, in one transaction
    shop.py cancel ORDER           the message cancelled at once, over AMQP
    shop.py serve                  closes what comes

Needs pika, psycopg2 (python3-pika, python3-psycopg2), servers, a bridge and a relay (docs/other-languages.md).
"""
import json
import os
import sys
import pika
import psycopg2

PREFIX = os.environ.get("DELAYBRIDGE_PREFIX", "delaybridge")
QUEUE, KEY = PREFIX + ".example.shop", "order.shop"
db = psycopg2.connect(os.environ["DATABASE_URL"])

def in_transaction(*statements):
    with db, db.cursor() as cursor:
        for statement, values in statements:
            cursor.execute(statement, values)

def channel():
    url = os.environ.get("DELAYBRIDGE_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
    return pika.BlockingConnection(pika.URLParameters(url)).channel()

def place(order, delay_ms):
    in_transaction(
        ("INSERT INTO shop_orders (id, state) VALUES (%s, 'placed')", [order]),
        ("INSERT INTO delaybridge_outbox (message_id, routing_key, delay_ms) VALUES (%s, %s, %s)", [order, KEY, int(delay_ms)]))

def pay(order):
    in_transaction(
        ("UPDATE shop_orders SET state = 'paid' WHERE id = %s AND state = 'placed'", [order]),
        ("INSERT INTO delaybridge_outbox (action, message_id) VALUES ('cancel', %s)", [order]))

def cancel(order):
    ch, answers = channel(), []
    ch.basic_consume("amq.rabbitmq.reply-to", lambda _ch, _method, _properties, body: answers.append(body), auto_ack=True)
    ch.basic_publish(PREFIX + ".command", "", json.dumps({"ids": [order]}).encode(), pika.BasicProperties(
        type="cancel", delivery_mode=2, reply_to="amq.rabbitmq.reply-to", correlation_id=order))
    while not answers:
        ch.connection.process_data_events(time_limit=1)
    print(answers[0].decode())

def close(order):  # the effect and its mark are one transaction: a message that comes twice has one effect
    with db, db.cursor() as cursor:
        cursor.execute("INSERT INTO delaybridge_ledger (key, done) VALUES (%s, now()) ON CONFLICT DO NOTHING", [f"{QUEUE}/{order}".encode()])
        if cursor.rowcount == 1:
            cursor.execute("UPDATE shop_orders SET state = 'closed', closings = closings + 1 WHERE id = %s AND state = 'placed'", [order])

def handle(ch, method, properties, body):
    for pause in (1, 5, None):  # what fails for long ends in quarantine, by the queue's dead-letter exchange
        try:
            close(properties.message_id)
            return ch.basic_ack(method.delivery_tag)
        except psycopg2.Error as failure:
            print(f"order {properties.message_id}: {failure}", file=sys.stderr)
            if db.closed:
                raise  # whoever restarts this process gets the message again
        if pause is None:
            return ch.basic_reject(method.delivery_tag, requeue=False)
        ch.connection.sleep(pause)

def serve():
    ch = channel()
    ch.queue_declare(QUEUE, durable=True, arguments={
        "x-queue-type": "quorum", "x-dead-letter-exchange": PREFIX + ".quarantine",
        "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})
    ch.queue_bind(QUEUE, PREFIX + ".ready", KEY)
    ch.basic_qos(prefetch_count=10)
    ch.basic_consume(QUEUE, handle)
    print("serving", flush=True)
    ch.start_consuming()

globals()[sys.argv[1]](*sys.argv[2:])
