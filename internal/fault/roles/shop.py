"""A shop in Python, as a run has it beside those in Go: orders in a table of its own, their messages in
rows of the outbox, cancelled by a row or over AMQP, and closed behind a ledger by a consumer that does not ask Redis.
It writes down what it asks for and sees, and plays the role that the environment asks for."""
import json
import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pika
import psycopg2

role = json.loads(os.environ["DELAYBRIDGE_FAULT_ROLE"])
prefix, queue, key = role["Topology"]["Prefix"], role["Queue"], role["Bind"][0]
database = next(at["At"] for at in role["Stores"] if at["Name"] == "postgres")
who = f'{role["Name"]}/{role["Life"]}'
written = os.open(f'{role["Dir"]}/history/{who.replace("/", "-")}.jsonl', os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
writing, ends = threading.Lock(), threading.Event()
PATIENCE = 10  # seconds, for an answer
FAILURES = (psycopg2.Error, pika.exceptions.AMQPError, OSError)


def now():
    return time.time_ns() // 1000


def note(kind, order, **more):
    with writing:  # one write: a process that is killed tears at most its last line
        os.write(written, (json.dumps({"at": more.pop("at", 0) or now(), "who": who, "kind": kind, "order": order, **more}) + "\n").encode())


def channel():
    url = pika.URLParameters(role["AMQP"])
    url.heartbeat, url.socket_timeout, url.stack_timeout, url.blocked_connection_timeout = 4, 4, 8, 8
    return pika.BlockingConnection(url).channel()


class Order:
    """What a customer does with order n follows from the seed."""

    def __init__(self, n):
        chance = random.Random(f'{role["Seed"]} {n}')
        self.id = f"py-{n:06d}"
        self.delay_ms = chance.choice([1000, 2000, 5000, *(chance.randrange(100, 8000) for _ in range(6))])
        self.pays_in = chance.uniform(0, self.delay_ms / 1000 + 0.5) if chance.random() < 0.3 else None
        self.cancels_in = chance.uniform(0, self.delay_ms / 1000 + 0.5) if chance.random() < 0.3 else None
        self.body = (self.id + " ") * (1 + n % 64)
        self.headers, self.properties = {"number": n, "shop": "Käse"}, {"content_type": "text/plain", "correlation_id": "c-" + self.id}

    def place(self):
        at = now()
        note("placed", self.id, at=at, queue=queue, unasked=role["Unasked"], detail=f"outbox, in Python, {self.delay_ms} ms")
        # Redis has it only when a relay has sent it: a change until then may meet nothing.
        note("publish", self.id, at=at, notbefore=at // 1000 * 1000 + self.delay_ms * 1000, ahead=role["Ahead"])
        while not ends.is_set():
            try:
                with closing(psycopg2.connect(database, connect_timeout=PATIENCE)) as db, db, db.cursor() as cursor:
                    cursor.execute("INSERT INTO shop_orders (id, state) VALUES (%s, 'pending') ON CONFLICT DO NOTHING", [self.id])
                    if cursor.rowcount == 1:  # otherwise an attempt was committed that was not written down
                        cursor.execute(
                            "INSERT INTO delaybridge_outbox (message_id, routing_key, delay_ms, body, headers, properties) VALUES (%s, %s, %s, %s, %s, %s)",
                            [self.id, key, self.delay_ms, self.body.encode(), json.dumps(self.headers), json.dumps(self.properties)])
                note("published", self.id)
                return True
            except FAILURES:
                time.sleep(0.1)
        note("unknown", self.id)
        return False

    def pay(self):
        note("pay", self.id)
        note("cancel", self.id)
        outcome = "pay-unknown"
        try:
            with closing(psycopg2.connect(database, connect_timeout=PATIENCE)) as db, db, db.cursor() as cursor:
                cursor.execute("UPDATE shop_orders SET state = 'paid' WHERE id = %s AND state = 'pending'", [self.id])
                outcome_if_committed = "paid" if cursor.rowcount == 1 else "pay-refused"
                if cursor.rowcount == 1:
                    cursor.execute("INSERT INTO delaybridge_outbox (action, message_id) VALUES ('cancel', %s)", [self.id])
            outcome = outcome_if_committed
        except FAILURES:
            pass
        note("cancel-unknown", self.id)  # there is no answer to a row
        note(outcome, self.id)

    def cancel(self):
        note("cancel", self.id)
        answers = []
        try:
            ch = channel()
            with closing(ch.connection):
                ch.basic_consume("amq.rabbitmq.reply-to", lambda _ch, _method, _properties, body: answers.append(json.loads(body)), auto_ack=True)
                ch.basic_publish(prefix + ".command", "", json.dumps({"ids": [self.id]}).encode(), pika.BasicProperties(
                    type="cancel", delivery_mode=2, reply_to="amq.rabbitmq.reply-to", correlation_id=self.id))
                deadline = time.monotonic() + PATIENCE
                while not answers and time.monotonic() < deadline:
                    ch.connection.process_data_events(time_limit=0.1)
        except FAILURES:
            pass
        if not answers:
            return note("cancel-unknown", self.id)
        if "error" in answers[0]:
            return note("cancel-refused", self.id, detail=answers[0]["error"])
        change = answers[0]["results"][0]
        kind = {"cancelled": "cancelled", "cancelled before": "cancelled", "recorded": "tombstoned", "too late": "cancel-late"}[change["outcome"]]
        since = {"since": int(datetime.fromisoformat(change["at"]).timestamp() * 1000)} if kind == "cancel-late" else {}
        note(kind, self.id, detail="over AMQP: " + change["outcome"], **since)

    def serve(self):
        placed = time.monotonic()
        if not self.place():
            return
        acts = sorted((wait, act) for wait, act in [(self.pays_in, "pay"), (self.cancels_in, "cancel")] if wait is not None)
        for wait, act in acts:
            time.sleep(max(0, placed + wait - time.monotonic()))
            getattr(self, act)()


class closing:
    """Closes what it is given, whatever happens: contextlib's would let an error of close hide another."""

    def __init__(self, what):
        self.what = what

    def __enter__(self):
        return self.what

    def __exit__(self, *_):
        try:
            self.what.close()
        except FAILURES:
            pass


def customers():
    every = 1_000_000 / role["Rate"]
    n = int((now() - role["Began"]) / every) + 1
    with ThreadPoolExecutor(max_workers=64) as inside:
        while not ends.wait(max(0, (role["Began"] + n * every - now()) / 1e6)):
            inside.submit(Order(n).serve)
            n += 1


class Consumer:
    def __init__(self):
        self.db = None

    def close(self, order):
        """Closes the order if it is not paid, and returns what it found. The mark and the effect are one transaction."""
        if self.db is None or self.db.closed:
            self.db = psycopg2.connect(database, connect_timeout=PATIENCE)
        with self.db, self.db.cursor() as cursor:
            cursor.execute("INSERT INTO delaybridge_ledger (key, done) VALUES (%s, now()) ON CONFLICT DO NOTHING", [f"{queue}/{order}".encode()])
            if cursor.rowcount == 1:
                cursor.execute("UPDATE shop_orders SET state = 'closed' WHERE id = %s AND state = 'pending'", [order])
                if cursor.rowcount == 1:
                    return "closed"
            cursor.execute("SELECT state FROM shop_orders WHERE id = %s", [order])
            return {"closed": "already closed", "paid": "paid, left alone"}[cursor.fetchone()[0]]

    def handle(self, ch, method, properties, body):
        order, headers = properties.message_id, properties.headers or {}
        sent = Order(int(order.removeprefix("py-")))
        intact = (body == sent.body.encode() and method.routing_key == key and sent.headers == {name: headers.get(name) for name in sent.headers}
                  and sent.properties == {name: getattr(properties, name) for name in sent.properties})
        due = {}
        if headers.get("x-delaybridge-path", "").startswith("parked"):  # otherwise it is by another clock
            due = {"due": int(datetime.fromisoformat(headers["x-delaybridge-due"]).timestamp() * 1000)}
        if not intact:
            print(f"{who}: order {order}: not what was sent: {method.routing_key}, {properties}, {body[:100]}", file=sys.stderr)
        note("received", order, intact=intact, **due)
        while True:  # holds the message, as what is given back comes again at once
            try:
                effect = self.close(order)
                break
            except psycopg2.Error as failure:
                print(f"{who}: order {order}: {failure!r}", file=sys.stderr)
                ch.connection.sleep(0.3)
        note("effect", order, detail=effect)
        ch.basic_ack(method.delivery_tag)
        note("acknowledged", order)

    def serve(self):
        ch = channel()
        with closing(ch.connection):
            ch.queue_declare(queue, durable=True, arguments={
                "x-queue-type": "quorum", "x-dead-letter-exchange": prefix + ".quarantine",
                "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})
            ch.basic_qos(prefetch_count=10)
            ch.basic_consume(queue, self.handle)
            while not ends.is_set():
                ch.queue_bind(queue, prefix + ".ready", key)  # a scenario may have deleted the exchange
                ch.connection.process_data_events(time_limit=1)


def consumer():
    one = Consumer()
    while not ends.is_set():
        try:
            one.serve()
        except FAILURES as failure:
            print(f"{who}: {failure!r}", file=sys.stderr)
            time.sleep(0.3)


signal.signal(signal.SIGTERM, lambda *_: ends.set())
{"python customers": customers, "python consumer": consumer}[role["Kind"]]()
