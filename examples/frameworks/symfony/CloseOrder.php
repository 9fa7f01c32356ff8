<?php
use Symfony\Component\Messenger\Attribute\AsMessageHandler;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpStamp;
use Symfony\Component\Messenger\MessageBusInterface;

final class CloseOrder
{
    public function __construct(public string $order, public int $placed) {}
}

#[AsMessageHandler]
final class CloseOrderHandler
{
    public function __invoke(CloseOrder $message): void
    {
        echo "close $message->order $message->placed\n";
    }
}

function place(MessageBusInterface $bus, string $order, int $delay): void
{
    $bus->dispatch(new CloseOrder($order, (int) (microtime(true) * 1000)), [
        new AmqpStamp('order.symfony', AMQP_NOPARAM, ['message_id' => $order, 'headers' => ['x-delay' => $delay]]),
    ]);
}
