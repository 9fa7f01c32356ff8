#!/usr/bin/env node
// A shop whose orders are closed when they are not paid in time.
//
//     shop.mjs place ORDER DELAY_MS   an order, and the message that will close it, in one transaction
//     shop.mjs pay ORDER              paid, and the message cancelled, in one transaction
//     shop.mjs cancel ORDER           cancels the message at once, over AMQP, and prints the answer
//     shop.mjs serve                  closes what comes
//
// Needs npm install, servers, a bridge and a relay (docs/other-languages.md).
import amqp from 'amqplib'
import pg from 'pg'

const prefix = process.env.DELAYBRIDGE_PREFIX ?? 'delaybridge'
const queue = `${prefix}.example.shop`
const key = 'order.shop'
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL })

async function inTransaction (work) {
  const client = await db.connect()
  try {
    await client.query('BEGIN')
    await work(client)
    await client.query('COMMIT')
  } catch (failure) {
    await client.query('ROLLBACK')
    throw failure
  } finally {
    client.release()
  }
}

const connect = () => amqp.connect(process.env.DELAYBRIDGE_AMQP_URL ?? 'amqp://guest:guest@127.0.0.1:5672/')

const commands = {
  place: (order, delay) => inTransaction(async tx => {
    await tx.query("INSERT INTO shop_orders (id, state) VALUES ($1, 'placed')", [order])
    await tx.query('INSERT INTO delaybridge_outbox (message_id, routing_key, delay_ms) VALUES ($1, $2, $3)', [order, key, delay])
  }),
  pay: order => inTransaction(async tx => {
    await tx.query("UPDATE shop_orders SET state = 'paid' WHERE id = $1 AND state = 'placed'", [order])
    await tx.query("INSERT INTO delaybridge_outbox (action, message_id) VALUES ('cancel', $1)", [order])
  }),
  async cancel (order) {
    const connection = await connect()
    const channel = await connection.createChannel()
    const answer = new Promise(resolve => channel.consume('amq.rabbitmq.reply-to', resolve, { noAck: true }))
    channel.publish(`${prefix}.command`, '', Buffer.from(JSON.stringify({ ids: [order] })), {
      type: 'cancel', persistent: true, replyTo: 'amq.rabbitmq.reply-to', correlationId: order
    })
    console.log((await answer).content.toString())
    await connection.close()
  },
  async serve () {
    const channel = await (await connect()).createChannel()
    await channel.assertQueue(queue, { arguments: { 'x-queue-type': 'quorum', 'x-dead-letter-exchange': `${prefix}.quarantine`, 'x-dead-letter-strategy': 'at-least-once', 'x-overflow': 'reject-publish' } })
    await channel.bindQueue(queue, `${prefix}.ready`, key)
    await channel.prefetch(10)
    await channel.consume(queue, async message => {
      for (const pause of [1000, 5000, null]) { // what fails for long ends in quarantine, by the queue's dead-letter exchange
        try {
          await inTransaction(tx => close(tx, message.properties.messageId))
          return channel.ack(message)
        } catch (failure) { console.error(`order ${message.properties.messageId}:`, failure.message) }
        if (pause === null) return channel.reject(message, false)
        await new Promise(resolve => setTimeout(resolve, pause))
      }
    })
    console.log('serving')
  }
}

// The effect and its mark are one transaction: a message that comes twice has one effect.
async function close (tx, order) {
  const marked = await tx.query('INSERT INTO delaybridge_ledger (key, done) VALUES ($1, now()) ON CONFLICT DO NOTHING', [Buffer.from(`${queue}/${order}`)])
  if (marked.rowCount === 1) await tx.query("UPDATE shop_orders SET state = 'closed', closings = closings + 1 WHERE id = $1 AND state = 'placed'", [order])
}

await commands[process.argv[2]](...process.argv.slice(3))
if (process.argv[2] !== 'serve') await db.end()
