<?php
require_once 'PhpAmqpLib/autoload.php'; // Composer: vendor/autoload.php
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

[, $order, $delay] = $argv;
$url = parse_url(getenv('DELAYBRIDGE_AMQP_URL'));
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass'], substr($url['path'], 1));
$channel = $connection->channel();
$channel->confirm_select();
$channel->set_nack_handler(fn () => throw new RuntimeException('the broker did not take the message'));
$channel->basic_publish(new AMQPMessage(json_encode(['order' => $order, 'placed' => (int) (microtime(true) * 1000)]), [
    'message_id' => $order,
    'delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT,
    'application_headers' => new AMQPTable(['x-delay' => (int) $delay]),
]), 'delaybridge.entry', 'order.php-amqplib');
$channel->wait_for_pending_acks(10);
$connection->close();
