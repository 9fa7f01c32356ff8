#!/usr/bin/env node
// Publishes an order that is due in a moment, and says when it came out.
//
//     npm install
//     node delay.mjs [MILLISECONDS]
//
// Needs servers and a bridge: eval "$(make -s up)"

import { randomUUID } from 'node:crypto'
import amqp from 'amqplib'

const delay = Number(process.argv[2] ?? 2500)
const prefix = process.env.DELAYBRIDGE_PREFIX ?? 'delaybridge'
const url = process.env.DELAYBRIDGE_AMQP_URL ?? 'amqp://guest:guest@127.0.0.1:5672/'
const queue = `${prefix}.example.node`

const connection = await amqp.connect(url)
const channel = await connection.createConfirmChannel()

// What is due is in the ready exchange. A queue like this one loses nothing, on
// RabbitMQ 4 neither (docs/wire-contract.md).
await channel.assertQueue(queue, {
  durable: true,
  arguments: {
    'x-queue-type': 'quorum',
    'x-dead-letter-exchange': `${prefix}.quarantine`,
    'x-dead-letter-strategy': 'at-least-once',
    'x-overflow': 'reject-publish'
  }
})
await channel.bindQueue(queue, `${prefix}.ready`, 'order.node')

const order = randomUUID()
let began
const arrived = new Promise((resolve, reject) => {
  setTimeout(() => reject(new Error(`order ${order} did not come out`)), delay + 60_000).unref()
  channel.consume(queue, message => {
    channel.ack(message)
    if (message.properties.messageId === order) resolve(performance.now() - began)
  })
})

// The header is all that tells a delayed message from another one.
channel.on('return', () => { throw new Error('the broker knows no place for the message') })
began = performance.now()
channel.publish(`${prefix}.entry`, 'order.node', Buffer.from('{}'), {
  messageId: order, persistent: true, mandatory: true, headers: { 'x-delay': delay }
})
await channel.waitForConfirms() // the broker has the message

console.log(`order ${order} came out after ${(await arrived).toFixed(0)} ms`)
await connection.close()
