import os
from kombu import Connection

with Connection(os.environ["DELAYBRIDGE_AMQP_URL"]) as connection, connection.Producer() as producer:
    for kind, delay in {"integer": 1000, "float": 1000.0, "text": "1000", "month": 2592000000}.items():
        producer.publish(b"", exchange="delaybridge.entry", routing_key="types", message_id="kombu-" + kind, headers={"x-delay": delay})
