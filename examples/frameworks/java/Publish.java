import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.ConnectionFactory;
import java.util.Map;

class Publish {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv("DELAYBRIDGE_AMQP_URL"));
        try (var connection = factory.newConnection(); var channel = connection.createChannel()) {
            channel.confirmSelect();
            var body = "{\"order\": \"%s\", \"placed\": %d}".formatted(args[0], System.currentTimeMillis());
            channel.basicPublish("delaybridge.entry", "order.java", new AMQP.BasicProperties.Builder()
                .messageId(args[0]).deliveryMode(2).headers(Map.of("x-delay", Long.valueOf(args[1]))).build(), body.getBytes());
            channel.waitForConfirmsOrDie(10_000);
        }
    }
}
