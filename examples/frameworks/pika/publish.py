import json, os, sys, time
import pika

order, delay_ms = sys.argv[1], int(sys.argv[2])
channel = pika.BlockingConnection(pika.URLParameters(os.environ["DELAYBRIDGE_AMQP_URL"])).channel()
channel.confirm_delivery()  # basic_publish returns once the broker has the message
channel.basic_publish(
    "delaybridge.entry", "order.pika", json.dumps({"order": order, "placed": int(time.time() * 1000)}),
    pika.BasicProperties(message_id=order, delivery_mode=2, headers={"x-delay": delay_ms}))
channel.connection.close()
