import amqp from 'amqplib'

const [order, delay] = process.argv.slice(2)
const connection = await amqp.connect(process.env.DELAYBRIDGE_AMQP_URL)
const channel = await connection.createConfirmChannel()
channel.publish('delaybridge.entry', 'order.amqplib', Buffer.from(JSON.stringify({ order, placed: Date.now() })), {
  messageId: order, persistent: true, headers: { 'x-delay': Number(delay) }
})
await channel.waitForConfirms()
await connection.close()
