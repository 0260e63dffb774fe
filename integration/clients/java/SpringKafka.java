import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.beans.factory.config.ConfigurableBeanFactory;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Scope;
import org.springframework.core.env.MapPropertySource;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.PartitionOffset;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.config.KafkaListenerEndpointRegistry;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.listener.AcknowledgingMessageListener;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;

/** A Spring application with templates, and listeners of partitions that are assigned by hand or by a group. */
final class SpringKafka implements Exchange.Library {
    private static final long PATIENCE_SECONDS = 120; // ends what hangs; nothing here takes as long

    private final AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext();
    private final org.apache.kafka.clients.consumer.Consumer<byte[], byte[]> asker; // where partitions begin and end

    SpringKafka(String brokers) {
        var properties = new MapPropertySource("arguments", Map.of("brokers", brokers));
        context.getEnvironment().getPropertySources().addFirst(properties);
        context.register(Application.class);
        context.refresh();
        asker = context.getBean(Application.class).consumerFactory().createConsumer();
    }

    @Override
    public void produce(String codec, List<ProducerRecord<byte[], byte[]>> records) {
        if (records.isEmpty()) {
            return;
        }
        Map<String, Object> settings = Map.of(ProducerConfig.COMPRESSION_TYPE_CONFIG, codec);
        var template = new KafkaTemplate<>(context.getBean(Application.class).producerFactory(), settings);
        List<CompletableFuture<?>> sent = new ArrayList<>();
        for (var record : records) {
            sent.add(template.send(record));
        }
        template.flush();
        sent.forEach(CompletableFuture::join);
        template.destroy();
    }

    @Override
    public void consume(String topic, Exchange.Start start, Consumer<ConsumerRecord<byte[], byte[]>> emit)
            throws InterruptedException {
        KafkaClients.Range range = KafkaClients.range(asker, new TopicPartition(topic, 0), start);
        if (range.start() >= range.end()) {
            return;
        }
        Class<? extends Listener> kind = start.isTime() ? ListenerFromTime.class : ListenerFromOffset.class;
        Listener listener = context.getBean(kind, topic, start.at(), range.end(), emit);
        boolean ended = listener.ended.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
        var container = context.getBean(KafkaListenerEndpointRegistry.class).unregisterListenerContainer("reader");
        container.stop();
        container.destroy();
        if (!ended) {
            throw new IllegalStateException("the end of " + topic + " does not come");
        }
    }

    @Override
    public AutoCloseable join(Members.Join join, Members.Hearer hearer) {
        var container = new ContainerProperties(join.topic());
        container.setAckMode(ContainerProperties.AckMode.MANUAL);
        container.setMessageListener((AcknowledgingMessageListener<String, String>) (record, acknowledgment) -> {
            hearer.hear(record.partition(), record.offset(), record.value());
            acknowledgment.acknowledge();
        });
        String brokers = context.getEnvironment().getProperty("brokers");
        var member = new KafkaMessageListenerContainer<>(
                new DefaultKafkaConsumerFactory<String, String>(join.settings(brokers)), container);
        member.start();
        return member::stop;
    }

    @Override
    public Transactions.Producer transactions(String id) {
        Map<String, Object> settings = KafkaClients.producerSettings(context.getEnvironment().getProperty("brokers"));
        var factory = new DefaultKafkaProducerFactory<byte[], byte[]>(settings);
        factory.setTransactionIdPrefix(id);
        var template = new KafkaTemplate<>(factory);
        return new Transactions.Producer() {
            @Override
            public void abort(ProducerRecord<byte[], byte[]> record) {
                var refusal = new IllegalStateException("aborted as asked");
                try {
                    template.executeInTransaction(operations -> {
                        operations.send(record).join();
                        throw refusal;
                    });
                } catch (IllegalStateException e) {
                    if (e != refusal) {
                        throw e;
                    }
                }
            }

            @Override
            public void commit(ProducerRecord<byte[], byte[]> record, Map<TopicPartition, OffsetAndMetadata> offsets,
                    ConsumerGroupMetadata group) {
                template.executeInTransaction(operations -> {
                    operations.send(record);
                    operations.sendOffsetsToTransaction(offsets, group);
                    return true;
                });
            }

            @Override
            public void close() {
                factory.destroy();
            }
        };
    }

    @Override
    public void close() {
        asker.close();
        context.close();
    }

    @Configuration
    @EnableKafka
    static class Application {
        @Value("${brokers}")
        private String brokers;

        @Bean
        ProducerFactory<byte[], byte[]> producerFactory() {
            return new DefaultKafkaProducerFactory<>(KafkaClients.producerSettings(brokers));
        }

        @Bean
        ConsumerFactory<byte[], byte[]> consumerFactory() {
            return new DefaultKafkaConsumerFactory<>(KafkaClients.consumerSettings(brokers));
        }

        @Bean
        ConcurrentKafkaListenerContainerFactory<byte[], byte[]> kafkaListenerContainerFactory() {
            var factory = new ConcurrentKafkaListenerContainerFactory<byte[], byte[]>();
            factory.setConsumerFactory(consumerFactory());
            return factory;
        }

        @Bean
        @Scope(ConfigurableBeanFactory.SCOPE_PROTOTYPE)
        ListenerFromOffset listenerFromOffset(String topic, long at, long end,
                Consumer<ConsumerRecord<byte[], byte[]>> emit) {
            return new ListenerFromOffset(topic, at, end, emit);
        }

        @Bean
        @Scope(ConfigurableBeanFactory.SCOPE_PROTOTYPE)
        ListenerFromTime listenerFromTime(String topic, long at, long end,
                Consumer<ConsumerRecord<byte[], byte[]>> emit) {
            return new ListenerFromTime(topic, at, end, emit);
        }
    }

    /** What is heard of a partition; which one, its annotation asks it. */
    abstract static class Listener {
        final CountDownLatch ended = new CountDownLatch(1);
        private final String topic;
        private final long at;
        private final long end;
        private final Consumer<ConsumerRecord<byte[], byte[]>> emit;

        Listener(String topic, long at, long end, Consumer<ConsumerRecord<byte[], byte[]>> emit) {
            this.topic = topic;
            this.at = at;
            this.end = end;
            this.emit = emit;
        }

        public String getTopic() {
            return topic;
        }

        public long getAt() {
            return at;
        }

        void hear(ConsumerRecord<byte[], byte[]> record) {
            if (record.offset() < end) {
                emit.accept(record);
            }
            if (record.offset() + 1 >= end) {
                ended.countDown();
            }
        }
    }

    static final class ListenerFromOffset extends Listener {
        ListenerFromOffset(String topic, long at, long end, Consumer<ConsumerRecord<byte[], byte[]>> emit) {
            super(topic, at, end, emit);
        }

        @KafkaListener(id = "reader", idIsGroup = false, topicPartitions = @org.springframework.kafka.annotation
                .TopicPartition(topic = "#{__listener.topic}", partitionOffsets = @PartitionOffset(
                        partition = "0", initialOffset = "#{__listener.at}")))
        public void listen(ConsumerRecord<byte[], byte[]> record) {
            hear(record);
        }
    }

    static final class ListenerFromTime extends Listener {
        ListenerFromTime(String topic, long at, long end, Consumer<ConsumerRecord<byte[], byte[]>> emit) {
            super(topic, at, end, emit);
        }

        @KafkaListener(id = "reader", idIsGroup = false, topicPartitions = @org.springframework.kafka.annotation
                .TopicPartition(topic = "#{__listener.topic}", partitionOffsets = @PartitionOffset(
                        partition = "0", initialOffset = "#{__listener.at}", seekPosition = "TIMESTAMP")))
        public void listen(ConsumerRecord<byte[], byte[]> record) {
            hear(record);
        }
    }
}
