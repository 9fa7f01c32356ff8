import com.rabbitmq.client.ConnectionFactory;
import java.util.Map;

class Consume {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv("DELAYBRIDGE_AMQP_URL"));
        var channel = factory.newConnection().createChannel();
        channel.queueDeclare("orders.java", true, false, false, Map.of(
            "x-queue-type", "quorum", "x-dead-letter-exchange", "delaybridge.quarantine",
            "x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish"));
        channel.queueBind("orders.java", "delaybridge.ready", "order.java");
        channel.basicQos(10);
        channel.basicConsume("orders.java", false, (tag, message) -> {
            System.out.println("close " + new String(message.getBody()));
            channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
        }, tag -> System.exit(1));
    }
}
