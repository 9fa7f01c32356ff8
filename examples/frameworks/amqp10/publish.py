import os, sys, time
from urllib.parse import urlsplit
from proton import Message
from proton.utils import BlockingConnection

order, delay_ms = sys.argv[1], int(sys.argv[2])
url = urlsplit(os.environ["DELAYBRIDGE_AMQP_URL"])
connection = BlockingConnection(url._replace(path="").geturl(), virtual_host="vhost:" + url.path[1:])
sender = connection.create_sender("/exchanges/delaybridge.entry/order.amqp10")
sender.send(Message(  # returns once the broker has the message
    id=order, durable=True, subject="close", priority=7, properties={"x-delay": delay_ms},
    body={"order": order, "placed": int(time.time() * 1000)}))
connection.close()
