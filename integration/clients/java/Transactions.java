import com.fasterxml.jackson.databind.MappingIterator;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Transactions as lines of stdin ask for them: each value is written in one, after one that is aborted. */
record Transactions(String id, String topic, int partition, String source, String group, List<String> values) {
    /** A library's transactional producer. */
    interface Producer extends AutoCloseable {
        /** Writes a record in a transaction, which it aborts. */
        void abort(ProducerRecord<byte[], byte[]> record) throws Exception;

        /** Writes a record, and the offsets of a group, in a transaction, which it commits. */
        void commit(ProducerRecord<byte[], byte[]> record, Map<TopicPartition, OffsetAndMetadata> offsets,
                ConsumerGroupMetadata group) throws Exception;

        @Override
        void close();
    }

    static void run(Exchange.Library library, String brokers) throws Exception {
        try (MappingIterator<Transactions> lines =
                new ObjectMapper().readerFor(Transactions.class).readValues(System.in)) {
            while (lines.hasNext()) {
                lines.next().write(library, brokers);
            }
        }
    }

    private void write(Exchange.Library library, String brokers) throws Exception {
        Map<String, Object> settings = KafkaClients.consumerSettings(brokers);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, group);
        try (Producer producer = library.transactions(id);
                var consumer = new KafkaConsumer<byte[], byte[]>(settings)) {
            for (int i = 0; i < values.size(); i++) {
                producer.abort(record("aborted"));
                producer.commit(record(values.get(i)),
                        Map.of(new TopicPartition(source, 0), new OffsetAndMetadata(i + 1)),
                        consumer.groupMetadata());
            }
        }
    }

    private ProducerRecord<byte[], byte[]> record(String value) {
        return new ProducerRecord<>(topic, partition, null, value.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }
}
