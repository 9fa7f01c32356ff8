import sys, time
from tasks import close

order, delay_ms = sys.argv[1], int(sys.argv[2])
close.apply_async(
    [order, int(time.time() * 1000)], exchange="delaybridge.entry", routing_key="order.celery",
    message_id=order, headers={"x-delay": delay_ms})
