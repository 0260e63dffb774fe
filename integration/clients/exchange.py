"""Produces and consumes with confluent-kafka for the client tests.

    exchange.py produce BROKERS TOPIC CODEC      < records
    exchange.py consume BROKERS TOPIC START...   > records of each start, an empty line after each

A record is a line of JSON: key, value and header values are in base64 or null. A START is offset:N or time:MS.
Reading ends at the end of the partition, which is partition 0.
"""

import base64
import json
import sys

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

PATIENCE = 60  # seconds; nothing takes as long


def encode(data):
    return None if data is None else base64.b64encode(data).decode()


def decode(text):
    return None if text is None else base64.b64decode(text)


def produce(brokers, topic, codec):
    producer = Producer({
        "bootstrap.servers": brokers, "compression.type": codec, "enable.idempotence": True,
        "message.max.bytes": 2_000_000, "linger.ms": 20,
    })
    failures = []

    def delivered(error, _):
        if error is not None:
            failures.append(str(error))

    for line in sys.stdin:
        record = json.loads(line)
        headers = [(header["name"], decode(header["value"])) for header in record["headers"] or []]
        producer.produce(
            topic, partition=0, key=decode(record["key"]), value=decode(record["value"]), headers=headers,
            timestamp=record["timestamp"], on_delivery=delivered)
        producer.poll(0)
    if producer.flush(PATIENCE) != 0:
        failures.append("not everything was sent")
    if failures:
        sys.exit("; ".join(failures))


def consume(brokers, topic, starts):
    consumer = Consumer({
        "bootstrap.servers": brokers, "group.id": "exchange", "enable.auto.commit": False,
        "enable.partition.eof": True, "auto.offset.reset": "error", "fetch.wait.max.ms": 50,
    })
    for start in starts:
        kind, _, number = start.partition(":")
        position = TopicPartition(topic, 0, int(number))
        if kind == "time":
            [position] = consumer.offsets_for_times([position], timeout=PATIENCE)
        if position.error is not None:
            sys.exit(str(position.error))
        consumer.assign([position])
        for record in until_end(consumer):
            print(json.dumps({
                "offset": record.offset(), "timestamp": record.timestamp()[1],
                "key": encode(record.key()), "value": encode(record.value()),
                "headers": [{"name": name, "value": encode(value)} for name, value in record.headers() or []],
            }))
        print()
        consumer.unassign()
    consumer.close()


def until_end(consumer):
    while True:
        record = consumer.poll(PATIENCE)
        if record is None:
            sys.exit("nothing comes, not even the end")
        if record.error() is None:
            yield record
        elif record.error().code() == KafkaError._PARTITION_EOF:
            return
        else:
            sys.exit(str(record.error()))


if __name__ == "__main__":
    if sys.argv[1] == "produce":
        produce(*sys.argv[2:])
    else:
        consume(sys.argv[2], sys.argv[3], sys.argv[4:])
