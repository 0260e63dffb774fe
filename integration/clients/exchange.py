"""Produces and consumes with confluent-kafka for the client tests: see program_test.go."""

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

import exchange_lines

PATIENCE = 60  # seconds; nothing takes as long
MAX_MESSAGE_BYTES = 12_000_000


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
    return failures


def consume(brokers, starts):
    consumer = Consumer({
        "bootstrap.servers": brokers, "group.id": "exchange", "enable.auto.commit": False,
        "enable.partition.eof": True, "auto.offset.reset": "error", "fetch.wait.max.ms": 50,
        "fetch.message.max.bytes": MAX_MESSAGE_BYTES,
    })
    for topic, kind, at in starts:
        position = TopicPartition(topic, 0, at)
        if kind == "time":
            [position] = consumer.offsets_for_times([position], timeout=PATIENCE)
        if position.error is not None:
            raise RuntimeError(str(position.error))
        consumer.assign([position])
        yield until_end(consumer)
        consumer.unassign()
    consumer.close()


def until_end(consumer):
    while True:
        message = consumer.poll(PATIENCE)
        if message is None:
            raise TimeoutError("nothing comes, not even the end")
        if message.error() is None:
            yield exchange_lines.Record(
                message.key(), message.value(), message.headers() or [], message.timestamp()[1], message.offset())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            return
        else:
            raise RuntimeError(str(message.error()))


if __name__ == "__main__":
    exchange_lines.main(produce, consume)
