"""Produces and consumes with aiokafka for the client tests: see program_test.go."""

import asyncio

import exchange_lines
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from exchange_lines import MAX_MESSAGE_BYTES, PATIENCE


def produce(brokers, topics):
    async def send_all():
        for topic, codec, records in topics:
            await send(brokers, topic, codec, records)

    asyncio.run(send_all())


async def send(brokers, topic, codec, records):
    async with AIOKafkaProducer(
            bootstrap_servers=brokers, compression_type=None if codec == "none" else codec, linger_ms=20,
            enable_idempotence=True, max_request_size=MAX_MESSAGE_BYTES) as producer:
        sent = [
            await producer.send(
                topic, partition=0, key=record.key, value=record.value, headers=record.headers,
                timestamp_ms=record.timestamp)
            for record in records
        ]
        await asyncio.wait_for(asyncio.gather(*sent), PATIENCE)


def consume(brokers, starts):
    async def read_all():
        async with AIOKafkaConsumer(
                bootstrap_servers=brokers, group_id="exchange", auto_offset_reset="none", fetch_max_wait_ms=50,
                max_partition_fetch_bytes=MAX_MESSAGE_BYTES) as consumer:
            return [await read(consumer, start) for start in starts]

    return asyncio.run(read_all())


async def read(consumer, start):
    partition = TopicPartition(start.topic, 0)
    consumer.assign([partition])
    at = start.at
    if start.kind == "time":
        at = (await consumer.offsets_for_times({partition: at}))[partition].offset
    consumer.seek(partition, at)
    end = (await consumer.end_offsets([partition]))[partition]
    records = []
    while await consumer.position(partition) < end:
        message = await asyncio.wait_for(consumer.getone(partition), PATIENCE)
        records.append(exchange_lines.Record(
            message.key, message.value, list(message.headers), message.timestamp, message.offset))
    return records


ASSIGNORS = {"classic": StickyPartitionAssignor, "range": RangePartitionAssignor}


def member(brokers, join, leaving, hear):
    async def listen():
        async with AIOKafkaConsumer(
                join.topic, bootstrap_servers=brokers, client_id=join.member, group_id=join.group,
                partition_assignment_strategy=[ASSIGNORS[join.protocol]], auto_offset_reset="earliest",
                isolation_level="read_committed", session_timeout_ms=6000, heartbeat_interval_ms=500) as consumer:
            while not leaving.is_set():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    for record in records:
                        hear(record.partition, record.offset, record.value)

    asyncio.run(listen())


def transact(brokers, job):
    async def write():
        async with AIOKafkaProducer(bootstrap_servers=brokers, transactional_id=job.id) as producer:
            for offset, value in enumerate(job.values):
                await producer.begin_transaction()
                await producer.send_and_wait(job.topic, partition=job.partition, value=b"aborted")
                await producer.abort_transaction()
                await producer.begin_transaction()
                await producer.send(job.topic, partition=job.partition, value=value.encode())
                await producer.send_offsets_to_transaction({TopicPartition(job.source, 0): offset + 1}, job.group)
                await producer.commit_transaction()

    asyncio.run(write())


if __name__ == "__main__":
    exchange_lines.main(produce, consume, member, transact)
