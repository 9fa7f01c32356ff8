"""Sends what AMQP 1.0 knows by the tier and through the inbox, and prints what a consumer of AMQP 1.0 finds changed."""
import os
from urllib.parse import urlsplit
from proton import Message, symbol, ulong
from proton.utils import BlockingConnection

url = urlsplit(os.environ["DELAYBRIDGE_AMQP_URL"])
connection = BlockingConnection(url._replace(path="").geturl(), virtual_host="vhost:" + url.path[1:])
sender = connection.create_sender("/exchanges/delaybridge.entry/types.amqp10")
receiver = connection.create_receiver("/queues/types.amqp10", credit=100)

CASES = {
    "bytes (data)": dict(body=b"\x00bytes", inferred=True, id="text"),
    "text (value)": dict(body="text", id="text"),
    "map (value)": dict(body={"a": 1, "b": ["x", 2]}, id="text"),
    "list (sequence)": dict(body=["x", 2], inferred=True, id="text"),
    "message-id ulong": dict(body=b"x", inferred=True, id=ulong(77)),
    "message-id binary": dict(body=b"x", inferred=True, id=b"\x00\x01"),
    "message-id of 300 letters": dict(body=b"x", inferred=True, id="i" * 300),
    "no message-id": dict(body=b"x", inferred=True),
}

def fields(message):
    found = {name: getattr(message, name) for name in (
        "body", "id", "subject", "priority", "durable", "content_type", "content_encoding", "reply_to", "group_id", "group_sequence")}
    found["body"] = (type(found["body"]).__name__, found["body"])
    for name, value in (message.properties or {}).items():
        found["application property " + name] = value
    for name, value in (message.annotations or {}).items():
        if name in ("x-opt-note", "x-note", "x-delay", "x-message-id"):
            found["annotation " + name] = value
    return found

def told(name, value):
    if name == "id" and isinstance(value, str) and value.startswith("no-id."):
        return "made up"
    if name == "id" or name.startswith("annotation"):
        return "there" if name == "annotation x-message-id" else repr(value)
    return "missing" if value is None else str(value)

for way, delay in (("tier", 1000), ("inbox", 1500)):
    sent = {}
    for case, kw in CASES.items():
        if kw.get("id") == "text":
            kw = dict(kw, id=f"{case} {way}")
        sent[case] = Message(
            subject="subject", priority=7, durable=True, content_type="text/plain", content_encoding="identity", correlation_id=f"amqp10 {way} {case}",
            reply_to="/queues/types.amqp10", group_id="group", group_sequence=5,
            properties={"x-delay": delay, "app": "A", "n": 5}, annotations={symbol("x-opt-note"): "note", symbol("x-note"): "note"}, **kw)
        sender.send(sent[case])
    changes = {}
    for _ in CASES:
        message = receiver.receive(timeout=120)
        case = message.correlation_id.removeprefix(f"amqp10 {way} ")
        before, after = fields(sent[case]), fields(message)
        changes[case] = {name: told(name, after.get(name)) for name in sorted(before | after) if before.get(name) != after.get(name)}
        receiver.accept()
    common = {name: value for name, value in changes[next(iter(CASES))].items() if all(c.get(name) == value for c in changes.values())}
    for case, changed in {"every message": common, **changes}.items():
        mine = [f"{name}: {value}" for name, value in changed.items() if changed is common or name not in common]
        if mine or changed is common:
            print(f"| {way} | {case} | {', '.join(mine) or 'nothing'} |")
connection.close()
