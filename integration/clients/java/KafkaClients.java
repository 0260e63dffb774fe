import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Apache Kafka's own client, with the idempotent producer that it makes by default. */
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
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, "exchange");
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
    public AutoCloseable join(Members.Join join, Members.Hearer hearer) {
        var leaving = new AtomicBoolean();
        Thread thread = Members.start(join.member(), () -> {
            try (var member = new KafkaConsumer<String, String>(join.settings(brokers))) {
                member.subscribe(List.of(join.topic()));
                while (!leaving.get()) {
                    member.poll(Duration.ofMillis(100))
                            .forEach(record -> hearer.hear(record.partition(), record.offset(), record.value()));
                }
            }
        });
        return () -> {
            leaving.set(true);
            thread.join();
        };
    }

    @Override
    public Transactions.Producer transactions(String id) {
        Map<String, Object> settings = producerSettings(brokers);
        settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, id);
        var producer = new KafkaProducer<byte[], byte[]>(settings);
        producer.initTransactions();
        return new Transactions.Producer() {
            @Override
            public void abort(ProducerRecord<byte[], byte[]> record) throws Exception {
                producer.beginTransaction();
                producer.send(record).get();
                producer.abortTransaction();
            }

            @Override
            public void commit(ProducerRecord<byte[], byte[]> record, Map<TopicPartition, OffsetAndMetadata> offsets,
                    ConsumerGroupMetadata group) {
                producer.beginTransaction();
                producer.send(record);
                producer.sendOffsetsToTransaction(offsets, group);
                producer.commitTransaction();
            }

            @Override
            public void close() {
                producer.close();
            }
        };
    }

    @Override
    public void close() {
        if (consumer != null) {
            consumer.close();
        }
    }
}
