"""Produces and consumes with confluent-kafka, which is librdkafka, for the client tests: see program_test.go."""

import exchange_lines
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from exchange_lines import MAX_MESSAGE_BYTES, PATIENCE


def produce(brokers, topics):
    failures = []

    def delivered(error, _):
        if error is not None:
            failures.append(str(error))

    for topic, codec, records in topics:
        producer = Producer({
            "bootstrap.servers": brokers, "compression.type": codec, "enable.idempotence": True,
            "message.max.bytes": MAX_MESSAGE_BYTES, "linger.ms": 20,
        })
        for record in records:
            producer.produce(
                topic, partition=0, key=record.key, value=record.value, headers=record.headers,
                timestamp=record.timestamp, on_delivery=delivered)
            producer.poll(0)
        if producer.flush(PATIENCE) != 0:
            failures.append("not everything was sent")
    if failures:
        raise RuntimeError("; ".join(failures))


def consume(brokers, starts):
    """Reads all topics at once, as a change of what is assigned takes a while, and each as often as there are starts."""
    consumer = Consumer({
        "bootstrap.servers": brokers, "group.id": "exchange", "enable.partition.eof": True,
        "auto.offset.reset": "error", "fetch.wait.max.ms": 50, "fetch.message.max.bytes": MAX_MESSAGE_BYTES,
    })
    starts = list(starts)
    rounds = []
    for i, start in enumerate(starts):
        for together in rounds:
            if start.topic not in together:
                break
        else:
            rounds.append(together := {})
        together[start.topic] = i
    reads = [[] for _ in starts]
    for together in rounds:
        consumer.assign([position(consumer, starts[i]) for i in together.values()])
        ends = 0
        while ends < len(together):
            message = consumer.poll(PATIENCE)
            if message is None:
                raise TimeoutError("nothing comes, not even the ends")
            if message.error() is None:
                reads[together[message.topic()]].append(exchange_lines.Record(
                    message.key(), message.value(), message.headers() or [], message.timestamp()[1], message.offset()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ends += 1
            else:
                raise KafkaException(message.error())
        consumer.unassign()
    consumer.close()
    return reads


def position(consumer, start):
    found = TopicPartition(start.topic, 0, start.at)
    if start.kind == "time":
        [found] = consumer.offsets_for_times([found], timeout=PATIENCE)
        if found.error is not None:
            raise KafkaException(found.error)
    return found


PROTOCOLS = {
    "classic": {"partition.assignment.strategy": "cooperative-sticky"},
    "range": {"partition.assignment.strategy": "range"},
    "consumer": {"group.protocol": "consumer"},
}


def member(brokers, join, leaving, hear):
    settings = {
        "bootstrap.servers": brokers, "client.id": join.member, "group.id": join.group,
        "auto.offset.reset": "earliest", **PROTOCOLS[join.protocol],
    }
    if join.protocol != "consumer":  # where the broker says how long
        settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
    consumer = Consumer(settings)
    consumer.subscribe([join.topic])
    while not leaving.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is not None:
            raise KafkaException(message.error())
        hear(message.partition(), message.offset(), message.value())
    consumer.close()


def transact(brokers, job):
    producer = Producer({"bootstrap.servers": brokers, "transactional.id": job.id})
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": job.group})  # whose metadata goes with the offsets
    producer.init_transactions(PATIENCE)
    for offset, value in enumerate(job.values):
        producer.begin_transaction()
        producer.produce(job.topic, partition=job.partition, value="aborted")
        producer.flush(PATIENCE)
        producer.abort_transaction(PATIENCE)
        producer.begin_transaction()
        producer.produce(job.topic, partition=job.partition, value=value)
        producer.send_offsets_to_transaction(
            [TopicPartition(job.source, 0, offset + 1)], consumer.consumer_group_metadata(), PATIENCE)
        producer.commit_transaction(PATIENCE)
    consumer.close()


if __name__ == "__main__":
    exchange_lines.main(produce, consume, member, transact)
