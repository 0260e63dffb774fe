import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MappingIterator;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;

/**
 * Writes and reads records with Java clients for the client tests.
 *
 * <pre>
 * Exchange clients|spring produce BROKERS    < a line {"topic":"t","codec":"gzip"}, then its records, one a line
 * Exchange clients|spring consume BROKERS    < lines TOPIC offset:N or TOPIC time:MS
 * Exchange clients|spring members BROKERS    < lines join MEMBER GROUP TOPIC PROTOCOL or leave MEMBER
 * Exchange clients|spring transact BROKERS   < lines as Transactions has them
 * </pre>
 *
 * A record is a line of JSON: key, value and header values are in base64 or null. It is written to partition 0 and has
 * been acknowledged when the program ends well. What is read from a start to the end of partition 0 is followed by an
 * empty line.
 */
public final class Exchange {
    /** A client of Kafka. */
    interface Library extends AutoCloseable {
        /** Writes to a topic and returns when all is acknowledged. */
        void produce(String codec, List<ProducerRecord<byte[], byte[]>> records) throws Exception;

        /** Reads partition 0 from a start up to its end. */
        void consume(String topic, Start start, Consumer<ConsumerRecord<byte[], byte[]>> emit) throws Exception;

        /** Has a member join a group, until it is closed. */
        AutoCloseable join(Members.Join join, Members.Hearer hearer);

        /** A producer for transactions with an id. */
        Transactions.Producer transactions(String id);

        @Override
        void close();
    }

    /** Where reading begins: at an offset, or at the first record that is not older than a time in ms. */
    record Start(boolean isTime, long at) {}

    private static final ObjectMapper JSON = new ObjectMapper();

    private Exchange() {}

    public static void main(String[] args) throws Exception {
        if (args.length != 3) {
            throw new IllegalArgumentException("usage: Exchange clients|spring produce|consume|members|transact BROKERS");
        }
        try (Library library = args[0].equals("spring") ? new SpringKafka(args[2]) : new KafkaClients(args[2])) {
            switch (args[1]) {
                case "produce" -> produce(library);
                case "consume" -> consume(library);
                case "members" -> Members.run(library);
                case "transact" -> Transactions.run(library, args[2]);
                default -> throw new IllegalArgumentException(args[1]);
            }
        }
    }

    /** Writes the records of each topic before it reads the next one's. */
    private static void produce(Library library) throws Exception {
        String topic = null;
        String codec = null;
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        try (MappingIterator<JsonNode> lines = JSON.readerFor(JsonNode.class).readValues(System.in)) {
            while (lines.hasNext()) {
                JsonNode line = lines.next();
                if (!line.has("topic")) {
                    records.add(parse(topic, line));
                    continue;
                }
                library.produce(codec, records);
                records.clear();
                topic = line.get("topic").asText();
                codec = line.get("codec").asText();
            }
        }
        library.produce(codec, records);
    }

    private static ProducerRecord<byte[], byte[]> parse(String topic, JsonNode line) throws IOException {
        long timestamp = line.get("timestamp").asLong();
        var record = new ProducerRecord<>(topic, 0, timestamp, bytes(line.get("key")), bytes(line.get("value")));
        for (JsonNode header : line.path("headers")) {
            record.headers().add(header.get("name").asText(), bytes(header.get("value")));
        }
        return record;
    }

    private static byte[] bytes(JsonNode field) throws IOException {
        return field.isNull() ? null : field.binaryValue();
    }

    private static void consume(Library library) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (JsonGenerator out = JSON.createGenerator(System.out)) {
            out.setRootValueSeparator(null);
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split("[ :]");
                var start = new Start(words[1].equals("time"), Long.parseLong(words[2]));
                library.consume(words[0], start, record -> print(out, record));
                out.writeRaw('\n');
            }
        }
    }

    private static void print(JsonGenerator out, ConsumerRecord<byte[], byte[]> record) {
        try {
            out.writeStartObject();
            out.writeNumberField("offset", record.offset());
            out.writeNumberField("timestamp", record.timestamp());
            print(out, "key", record.key());
            print(out, "value", record.value());
            out.writeArrayFieldStart("headers");
            for (Header header : record.headers()) {
                out.writeStartObject();
                out.writeStringField("name", header.key());
                print(out, "value", header.value());
                out.writeEndObject();
            }
            out.writeEndArray();
            out.writeEndObject();
            out.writeRaw('\n');
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static void print(JsonGenerator out, String name, byte[] data) throws IOException {
        if (data == null) {
            out.writeNullField(name);
        } else {
            out.writeBinaryField(name, data);
        }
    }
}
