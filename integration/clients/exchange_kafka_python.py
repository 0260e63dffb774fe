"""Produces and consumes with kafka-python for the client tests: see program_test.go."""

import exchange_lines
from exchange_lines import MAX_MESSAGE_BYTES, PATIENCE
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor


def produce(brokers, topics):
    for topic, codec, records in topics:
        producer = KafkaProducer(
            bootstrap_servers=brokers, compression_type=None if codec == "none" else codec, linger_ms=20,
            max_request_size=MAX_MESSAGE_BYTES, metrics_enabled=False)
        futures = [
            producer.send(
                topic, partition=0, key=record.key, value=record.value, headers=record.headers,
                timestamp_ms=record.timestamp)
            for record in records
        ]
        producer.flush(PATIENCE)
        for future in futures:
            future.get(PATIENCE)
        producer.close()


def consume(brokers, starts):
    consumer = KafkaConsumer(
        bootstrap_servers=brokers, group_id="exchange", auto_offset_reset="none", fetch_max_wait_ms=50,
        max_partition_fetch_bytes=MAX_MESSAGE_BYTES, metrics_enabled=False)
    for start in starts:
        partition = TopicPartition(start.topic, 0)
        consumer.assign([partition])
        at = start.at
        if start.kind == "time":
            at = consumer.offsets_for_times({partition: at})[partition].offset
        consumer.seek(partition, at)
        yield until_end(consumer, partition, consumer.end_offsets([partition])[partition])
    consumer.close()


def until_end(consumer, partition, end):
    while consumer.position(partition) < end:
        read = consumer.poll(PATIENCE * 1000)
        if not read:
            raise TimeoutError("nothing comes")
        for record in read[partition]:
            yield exchange_lines.Record(record.key, record.value, record.headers, record.timestamp, record.offset)


ASSIGNORS = {"classic": CooperativeStickyAssignor, "range": RangePartitionAssignor}


def member(brokers, join, leaving, hear):
    consumer = KafkaConsumer(
        join.topic, bootstrap_servers=brokers, client_id=join.member, group_id=join.group,
        partition_assignment_strategy=[ASSIGNORS[join.protocol]], auto_offset_reset="earliest",
        isolation_level="read_committed", session_timeout_ms=6000, heartbeat_interval_ms=500, metrics_enabled=False)
    while not leaving.is_set():
        # A poll that ends just before the answer to a SyncGroup comes leaves this client with neither an assignment nor
        # heartbeats, for good: so polls are longer than joins take.
        for records in consumer.poll(5000).values():
            for record in records:
                hear(record.partition, record.offset, record.value)
    consumer.close()


def transact(brokers, job):
    producer = KafkaProducer(bootstrap_servers=brokers, transactional_id=job.id, metrics_enabled=False)
    producer.init_transactions()
    for offset, value in enumerate(job.values):
        producer.begin_transaction()
        producer.send(job.topic, partition=job.partition, value=b"aborted").get(PATIENCE)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(job.topic, partition=job.partition, value=value.encode())
        producer.send_offsets_to_transaction(
            {TopicPartition(job.source, 0): OffsetAndMetadata(offset + 1, "", -1)}, job.group)
        producer.commit_transaction()
    producer.close()


if __name__ == "__main__":
    exchange_lines.main(produce, consume, member, transact)
