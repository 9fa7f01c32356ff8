<?php
require_once 'PhpAmqpLib/autoload.php'; // Composer: vendor/autoload.php
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Wire\AMQPTable;

$url = parse_url(getenv('DELAYBRIDGE_AMQP_URL'));
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass'], substr($url['path'], 1));
$channel = $connection->channel();
$channel->queue_declare('orders.php-amqplib', durable: true, auto_delete: false, arguments: new AMQPTable([
    'x-queue-type' => 'quorum', 'x-dead-letter-exchange' => 'delaybridge.quarantine',
    'x-dead-letter-strategy' => 'at-least-once', 'x-overflow' => 'reject-publish',
]));
$channel->queue_bind('orders.php-amqplib', 'delaybridge.ready', 'order.php-amqplib');
$channel->basic_qos(0, 10, false);
$channel->basic_consume('orders.php-amqplib', callback: function ($message) {
    $order = json_decode($message->body);
    echo "close $order->order $order->placed\n";
    $message->ack();
});
while ($channel->is_consuming()) {
    $channel->wait();
}
