import os, threading
import pika
import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

pika.BlockingConnection(pika.URLParameters(os.environ["DELAYBRIDGE_AMQP_URL"])).channel().exchange_bind("delaybridge.entry", "amq.topic", "delayed.#")
subscribed, got = threading.Event(), threading.Event()


def on_message(_client, _data, message):
    print("at once:", message.topic, message.payload.decode())
    got.set()


client = mqtt.Client("types", protocol=mqtt.MQTTv5)
client.username_pw_set("guest", "guest")
client.on_message, client.on_subscribe = on_message, lambda *_: subscribed.set()
client.connect("127.0.0.1", int(os.environ["MQTT_PORT"]))
client.loop_start()
client.subscribe("delayed/#", 1)
assert subscribed.wait(60)
properties = Properties(PacketTypes.PUBLISH)
properties.UserProperty = [("x-delay", "1000"), ("colour", "red")]
properties.ContentType, properties.CorrelationData, properties.ResponseTopic = "text/plain", b"corr", "answers/x"
client.publish("delayed/order", b"mqtt-1000", qos=1, properties=properties).wait_for_publish()
assert got.wait(60)
