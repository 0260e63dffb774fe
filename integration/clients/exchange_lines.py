"""What the exchange programs in Python share: the lines that they read and write (see program_test.go), and limits."""

import base64
import itertools
import json
import sys
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


def main(produce, consume):
    """Runs produce(BROKERS, topics), or consume(BROKERS, starts), which returns or yields the records of each start."""
    verb, brokers = sys.argv[1:]
    if verb == "produce":
        produce(brokers, topics())
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


def encode(data):
    return None if data is None else base64.b64encode(data).decode()


def decode(text):
    return None if text is None else base64.b64decode(text)
