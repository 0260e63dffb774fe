"""What the exchange programs in Python share: the lines that they read and write (see program_test.go), and limits."""

import base64
import itertools
import json
import os
import sys
import threading
from typing import NamedTuple

PATIENCE = 60  # seconds; nothing takes as long
MAX_MESSAGE_BYTES = 12_000_000


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int  # in ms
    offset: int = 0


class Start(NamedTuple):
    topic: str
    kind: str  # "offset" or "time"
    at: int


class Join(NamedTuple):
    member: str  # also its client id
    group: str
    topic: str
    protocol: str  # "classic", "range" or "consumer"


class Transactions(NamedTuple):
    id: str
    topic: str
    partition: int
    source: str
    group: str
    values: list[str]


def main(produce, consume, member, transact):
    """Runs one of
    produce(BROKERS, topics),
    consume(BROKERS, starts), which returns or yields the records of each start,
    member(BROKERS, join, leaving, hear) for each member, until the event is set that it shall leave,
    transact(BROKERS, transactions).
    """
    verb, brokers = sys.argv[1:]
    if verb == "produce":
        produce(brokers, topics())
        return
    if verb == "members":
        members(brokers, member)
        return
    if verb == "transact":
        for line in sys.stdin:
            transact(brokers, Transactions(**json.loads(line)))
        return
    for records in consume(brokers, starts()):
        for record in records:
            print(json.dumps({
                "offset": record.offset, "timestamp": record.timestamp,
                "key": encode(record.key), "value": encode(record.value),
                "headers": [{"name": name, "value": encode(value)} for name, value in record.headers],
            }))
        print()


def topics():
    """Yields the name of each topic, its codec and its records."""
    topic, records = None, []
    for line in itertools.chain(map(json.loads, sys.stdin), [{"topic": None}]):
        if "topic" in line:
            if topic is not None:
                yield topic["topic"], topic["codec"], records
            topic, records = line, []
        else:
            headers = [(header["name"], decode(header["value"])) for header in line["headers"] or []]
            records.append(Record(decode(line["key"]), decode(line["value"]), headers, line["timestamp"]))


def starts():
    for line in sys.stdin:
        topic, _, start = line.strip().partition(" ")
        kind, _, at = start.partition(":")
        yield Start(topic, kind, int(at))


def members(brokers, member):
    """Has members of groups join and leave as stdin says."""
    def fail(failure):
        sys.excepthook(failure.exc_type, failure.exc_value, failure.exc_traceback)
        sys.stderr.flush()
        os._exit(1)

    threading.excepthook = fail
    running = {}
    for line in sys.stdin:
        verb, name, *rest = line.split()
        if verb == "join":
            leaving = threading.Event()
            thread = threading.Thread(
                target=member, args=(brokers, Join(name, *rest), leaving, hearing(name)), daemon=True)
            running[name] = thread, leaving
            thread.start()
        else:
            thread, leaving = running.pop(name)
            leaving.set()
            thread.join()
            tell({"member": name, "left": True})


def hearing(member):
    """Returns hear(partition, offset, value), by which a member tells of a record."""
    return lambda partition, offset, value: tell(
        {"member": member, "partition": partition, "offset": offset, "value": value.decode()})


def tell(message):
    sys.stdout.write(json.dumps(message) + "\n")  # one write: several members tell
    sys.stdout.flush()


def encode(data):
    return None if data is None else base64.b64encode(data).decode()


def decode(text):
    return None if text is None else base64.b64decode(text)
