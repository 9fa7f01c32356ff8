<?php
$url = parse_url(getenv('DELAYBRIDGE_AMQP_URL'));
$connection = new AMQPConnection(['host' => $url['host'], 'port' => $url['port'], 'vhost' => substr($url['path'], 1), 'login' => $url['user'], 'password' => $url['pass']]);
$connection->connect();
$exchange = new AMQPExchange(new AMQPChannel($connection));
$exchange->setName('delaybridge.entry');
foreach (['integer' => 1000, 'float' => 1000.0, 'text' => '1000', 'month' => 2592000000] as $kind => $delay) {
    $exchange->publish('', 'types', AMQP_NOPARAM, ['message_id' => "php-amqp-$kind", 'headers' => ['x-delay' => $delay]]);
}
$connection->disconnect();
