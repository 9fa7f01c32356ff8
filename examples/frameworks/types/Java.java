import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.ConnectionFactory;
import java.util.Map;

class Java {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv("DELAYBRIDGE_AMQP_URL"));
        try (var connection = factory.newConnection(); var channel = connection.createChannel()) {
            for (var delay : Map.<String, Object>of("integer", 1000, "float", 1000.0, "text", "1000", "month", 2592000000L).entrySet()) {
                channel.basicPublish("delaybridge.entry", "types", new AMQP.BasicProperties.Builder()
                    .messageId("java-" + delay.getKey()).headers(Map.of("x-delay", delay.getValue())).build(), new byte[0]);
            }
        }
    }
}
