import amqp from 'amqplib'

const connection = await amqp.connect(process.env.DELAYBRIDGE_AMQP_URL)
const channel = await connection.createConfirmChannel()
// 1000.0 is the same as 1000 in this language, so the float has a fraction.
for (const [kind, delay] of Object.entries({ integer: 1000, float: 1000.5, text: '1000', month: 2592000000 })) {
  channel.publish('delaybridge.entry', 'types', Buffer.from(''), { messageId: 'amqplib-' + kind, headers: { 'x-delay': delay } })
}
await channel.waitForConfirms()
await connection.close()
