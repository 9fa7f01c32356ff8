require 'bunny'

connection = Bunny.new(ENV['DELAYBRIDGE_AMQP_URL']).start
channel = connection.create_channel
{ integer: 1000, float: 1000.0, text: '1000', month: 2592000000 }.each do |kind, delay|
  channel.basic_publish('', 'delaybridge.entry', 'types', message_id: "bunny-#{kind}", headers: { 'x-delay' => delay })
end
connection.close
