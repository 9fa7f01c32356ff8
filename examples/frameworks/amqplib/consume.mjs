import amqp from 'amqplib'

const connection = await amqp.connect(process.env.DELAYBRIDGE_AMQP_URL)
const channel = await connection.createChannel()
await channel.assertQueue('orders.amqplib', {
  durable: true,
  arguments: {
    'x-queue-type': 'quorum', 'x-dead-letter-exchange': 'delaybridge.quarantine',
    'x-dead-letter-strategy': 'at-least-once', 'x-overflow': 'reject-publish'
  }
})
await channel.bindQueue('orders.amqplib', 'delaybridge.ready', 'order.amqplib')
await channel.prefetch(10)
await channel.consume('orders.amqplib', message => {
  const { order, placed } = JSON.parse(message.content)
  console.log('close', order, placed)
  channel.ack(message)
})
