import os
import pika

ch = pika.BlockingConnection(pika.URLParameters(os.environ["DELAYBRIDGE_AMQP_URL"])).channel()
for kind, delay in {"integer": 1000, "float": 1000.0, "text": "1000", "month": 2592000000}.items():
    try:
        ch.basic_publish("delaybridge.entry", "types", b"", pika.BasicProperties(message_id="pika-" + kind, headers={"x-delay": delay}))
    except pika.exceptions.UnsupportedAMQPFieldException:
        print(kind)
ch.connection.close()
