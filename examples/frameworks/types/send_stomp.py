import os, threading
import stomp


class Told(stomp.ConnectionListener):
    closed = threading.Event()

    def on_error(self, frame):
        print(frame.body)

    def on_disconnected(self):
        self.closed.set()


for header, number in (("message-id", 1500), ("amqp-message-id", 1000), ("amqp-message-id", 1500)):
    connection, told = stomp.Connection([("127.0.0.1", int(os.environ["STOMP_PORT"]))]), Told()
    told.closed = threading.Event()
    connection.set_listener("", told)
    connection.connect("guest", "guest", wait=True)
    connection.send("/exchange/delaybridge.entry/types.stomp", "body", content_type="text/plain", headers={
        header: f"stomp-{number}", "x-delay": str(number), "persistent": "true", "priority": "7", "correlation-id": "corr", "colour": "red"})
    connection.disconnect(receipt="done")  # answered when all before it is done
    told.closed.wait(60)
