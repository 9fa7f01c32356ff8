require 'bunny'
require 'json'

order, delay = ARGV
channel = Bunny.new(ENV['DELAYBRIDGE_AMQP_URL']).start.create_channel
channel.confirm_select
channel.basic_publish({ order: order, placed: (Time.now.to_f * 1000).to_i }.to_json, 'delaybridge.entry', 'order.bunny',
                      message_id: order, persistent: true, headers: { 'x-delay' => delay.to_i })
raise 'the broker did not take the message' unless channel.wait_for_confirms
