require 'bunny'
require 'json'
$stdout.sync = true

channel = Bunny.new(ENV['DELAYBRIDGE_AMQP_URL']).start.create_channel
channel.prefetch(10)
queue = channel.queue('orders.bunny', durable: true, arguments: {
  'x-queue-type' => 'quorum', 'x-dead-letter-exchange' => 'delaybridge.quarantine',
  'x-dead-letter-strategy' => 'at-least-once', 'x-overflow' => 'reject-publish'
})
queue.bind('delaybridge.ready', routing_key: 'order.bunny')
queue.subscribe(manual_ack: true, block: true) do |delivery, _properties, body|
  order = JSON.parse(body)
  puts "close #{order['order']} #{order['placed']}"
  channel.ack(delivery.delivery_tag)
end
