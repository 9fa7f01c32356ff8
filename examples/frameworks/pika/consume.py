import json, os
import pika

def close(channel, delivery, properties, body):
    order = json.loads(body)
    print("close", order["order"], order["placed"], flush=True)
    channel.basic_ack(delivery.delivery_tag)

channel = pika.BlockingConnection(pika.URLParameters(os.environ["DELAYBRIDGE_AMQP_URL"])).channel()
channel.queue_declare("orders.pika", durable=True, arguments={
    "x-queue-type": "quorum", "x-dead-letter-exchange": "delaybridge.quarantine",
    "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})
channel.queue_bind("orders.pika", "delaybridge.ready", "order.pika")
channel.basic_qos(prefetch_count=10)
channel.basic_consume("orders.pika", close)
channel.start_consuming()
