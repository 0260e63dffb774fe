import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Members of consumer groups, which join and leave as the lines of stdin say; what they read are lines of stdout. */
final class Members {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** What a member is told: its name, which is its client id too, and what it joins. */
    record Join(String member, String group, String topic, String protocol) {
        Map<String, Object> settings(String brokers) {
            Map<String, Object> settings = new HashMap<>();
            settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
            settings.put(ConsumerConfig.CLIENT_ID_CONFIG, member);
            settings.put(ConsumerConfig.GROUP_ID_CONFIG, group);
            settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
            settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
            settings.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
            settings.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
            if (protocol.equals("consumer")) {
                settings.put(ConsumerConfig.GROUP_PROTOCOL_CONFIG, GroupProtocol.CONSUMER.name());
                return settings; // the broker says how long a session is
            }
            settings.put(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, protocol.equals("range")
                    ? RangeAssignor.class.getName() : CooperativeStickyAssignor.class.getName());
            settings.put(CommonClientConfigs.SESSION_TIMEOUT_MS_CONFIG, 6000);
            settings.put(CommonClientConfigs.HEARTBEAT_INTERVAL_MS_CONFIG, 500);
            return settings;
        }
    }

    /** Takes what a member reads. */
    interface Hearer {
        void hear(int partition, long offset, String value);
    }

    private Members() {}

    static void run(Exchange.Library library) throws Exception {
        Map<String, AutoCloseable> running = new HashMap<>();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            String member = words[1];
            if (words[0].equals("join")) {
                running.put(member, library.join(new Join(member, words[2], words[3], words[4]),
                        (partition, offset, value) -> tell(member,
                                Map.of("partition", partition, "offset", offset, "value", value))));
            } else {
                running.remove(member).close();
                tell(member, Map.of("left", true));
            }
        }
    }

    private static synchronized void tell(String member, Map<String, Object> message) {
        try {
            var all = new TreeMap<>(message);
            all.put("member", member);
            System.out.println(JSON.writeValueAsString(all));
        } catch (com.fasterxml.jackson.core.JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Ends the program when a member fails. */
    static Thread start(String name, Runnable member) {
        var thread = new Thread(member, name);
        thread.setUncaughtExceptionHandler((failed, e) -> {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        thread.start();
        return thread;
    }
}
