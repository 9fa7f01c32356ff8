import os
from urllib.parse import urlsplit
from proton.utils import BlockingConnection

url = urlsplit(os.environ["DELAYBRIDGE_AMQP_URL"])
connection = BlockingConnection(url._replace(path="").geturl(), virtual_host="vhost:" + url.path[1:])
receiver = connection.create_receiver("/queues/orders.amqp10", credit=10)
while True:
    message = receiver.receive(timeout=None)
    print("close", message.body["order"], message.body["placed"], message.subject, message.priority, flush=True)
    receiver.accept()
