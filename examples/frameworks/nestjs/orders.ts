import 'reflect-metadata'
import { Injectable, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { AmqpConnection, RabbitMQModule, RabbitSubscribe } from '@golevelup/nestjs-rabbitmq'

@Injectable()
class Orders {
  constructor (private readonly amqp: AmqpConnection) {}

  async place (order: string, delay: number) {
    await this.amqp.publish('delaybridge.entry', 'order.nestjs', { order, placed: Date.now() }, {
      messageId: order, persistent: true, headers: { 'x-delay': delay }
    })
  }

  @RabbitSubscribe({
    exchange: 'delaybridge.ready', routingKey: 'order.nestjs', queue: 'orders.nestjs',
    queueOptions: {
      durable: true,
      arguments: {
        'x-queue-type': 'quorum', 'x-dead-letter-exchange': 'delaybridge.quarantine',
        'x-dead-letter-strategy': 'at-least-once', 'x-overflow': 'reject-publish'
      }
    }
  })
  async close ({ order, placed }: { order: string, placed: number }) {
    console.log('close', order, placed)
  }
}

@Module({
  imports: [RabbitMQModule.forRoot({ uri: process.env.DELAYBRIDGE_AMQP_URL! })], // no exchanges: they are there
  providers: [Orders]
})
class Shop {}

const app = await NestFactory.createApplicationContext(Shop, { logger: ['error'] })
const [order, delay] = process.argv.slice(2)
if (order) {
  await app.get(Orders).place(order, Number(delay))
  await app.close()
}
