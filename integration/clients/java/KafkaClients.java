import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Apache Kafka's own client, with the idempotent producer that it makes by default and a consumer that assigns. */
final class KafkaClients implements Exchange.Library {
    /** Leaves room for records of 10 MB. */
    private static final int MAX_MESSAGE_BYTES = 12_000_000;

    private final String brokers;
    private KafkaConsumer<byte[], byte[]> consumer;

    KafkaClients(String brokers) {
        this.brokers = brokers;
    }

    static Map<String, Object> producerSettings(String brokers) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
        settings.put(ProducerConfig.MAX_REQUEST_SIZE_CONFIG, MAX_MESSAGE_BYTES);
        settings.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
        settings.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
        return settings;
    }

    static Map<String, Object> consumerSettings(String brokers) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
        settings.put(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, MAX_MESSAGE_BYTES);
        settings.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 50);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
        settings.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        settings.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        return settings;
    }

    @Override
    public void produce(String codec, List<ProducerRecord<byte[], byte[]>> records) throws Exception {
        if (records.isEmpty()) {
            return;
        }
        Map<String, Object> settings = producerSettings(brokers);
        settings.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, codec);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<byte[], byte[]>(settings)) {
            for (var record : records) {
                sent.add(producer.send(record));
            }
        }
        for (var result : sent) {
            result.get();
        }
    }

    @Override
    public void consume(String topic, Exchange.Start start, Consumer<ConsumerRecord<byte[], byte[]>> emit) {
        if (consumer == null) {
            consumer = new KafkaConsumer<>(consumerSettings(brokers));
        }
        var partition = new TopicPartition(topic, 0);
        Range range = range(consumer, partition, start);
        consumer.assign(List.of(partition));
        consumer.seek(partition, range.start);
        while (consumer.position(partition) < range.end) {
            consumer.poll(Duration.ofSeconds(1)).forEach(emit);
        }
    }

    /** The offsets to read, without that of the end. */
    record Range(long start, long end) {}

    static Range range(org.apache.kafka.clients.consumer.Consumer<?, ?> consumer, TopicPartition partition,
            Exchange.Start start) {
        long end = consumer.endOffsets(List.of(partition)).get(partition);
        if (!start.isTime()) {
            return new Range(start.at(), end);
        }
        var first = consumer.offsetsForTimes(Map.of(partition, start.at())).get(partition);
        return new Range(first == null ? end : first.offset(), end);
    }

    @Override
    public void close() {
        if (consumer != null) {
            consumer.close();
        }
    }
}
