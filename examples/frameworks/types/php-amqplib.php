<?php
require_once 'PhpAmqpLib/autoload.php';
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

$url = parse_url(getenv('DELAYBRIDGE_AMQP_URL'));
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass'], substr($url['path'], 1));
$channel = $connection->channel();
foreach (['integer' => 1000, 'float' => 1000.0, 'text' => '1000', 'month' => 2592000000] as $kind => $delay) {
    $channel->basic_publish(new AMQPMessage('', [
        'message_id' => "php-amqplib-$kind", 'application_headers' => new AMQPTable(['x-delay' => $delay]),
    ]), 'delaybridge.entry', 'types');
}
$connection->close();
