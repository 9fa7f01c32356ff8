import os
from celery import Celery
from kombu import Exchange, Queue

app = Celery("tasks", broker=os.environ["DELAYBRIDGE_AMQP_URL"])
app.conf.broker_transport_options = {"confirm_publish": True}
app.conf.task_acks_late = True
app.conf.task_queues = [Queue(
    "orders.celery", Exchange("delaybridge.ready", type="topic", no_declare=True), routing_key="order.celery",
    queue_arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": "delaybridge.quarantine",
                     "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})]

@app.task(bind=True, max_retries=5)
def close(self, order, placed):
    if order.startswith("locked") and self.request.retries == 0:  # whatever may be over in a moment
        raise self.retry(countdown=0, exchange="delaybridge.entry", headers={"x-delay": 1500})
    print(f"close {order} {placed}")
