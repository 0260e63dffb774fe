package txn

import (
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestRecordsAreThoseOfKafka compares with bytes that Apache Kafka 4.4 wrote: name, key, value. What its record has no
// room for is lost.
func TestRecordsAreThoseOfKafka(t *testing.T) {
	const at = 1700000000000
	one := partitions(t, []string{"events-3"})
	records := map[string]Transaction{
		"empty": {
			Producer: Producer{ID: 7}, PreviousID: 7, NextID: -1, State: Empty, TimeoutMs: 60000, StartedMs: -1, UpdatedMs: at,
		},
		"ongoing": {
			Producer: Producer{ID: 7, Epoch: 3}, PreviousID: 7, NextID: -1, State: Ongoing, Partitions: one,
			TimeoutMs: 60000, StartedMs: at, UpdatedMs: at + 1, Version: 2,
		},
		"exhausted": {
			Producer: Producer{ID: 7, Epoch: 32767}, PreviousID: 7, NextID: 9, State: PrepareCommit, Partitions: one,
			TimeoutMs: 60000, StartedMs: at, UpdatedMs: at + 2, Version: 2,
		},
		"completed": {
			Producer: Producer{ID: 9}, PreviousID: 7, NextID: -1, State: CompleteCommit,
			TimeoutMs: 60000, StartedMs: at, UpdatedMs: at + 3, Version: 2,
		},
		"classic-v0": { // of a cluster that has not finalized transaction.version 1
			Producer: Producer{ID: 7, Epoch: 3}, PreviousID: -1, NextID: -1, State: PrepareAbort, Partitions: one,
			TimeoutMs: 60000, StartedMs: at, UpdatedMs: at + 1,
		},
	}
	golden, err := os.ReadFile("testdata/kafka-4.4.golden")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(golden)) {
		fields := strings.Fields(line)
		want, ok := records[fields[0]]
		if !ok {
			t.Fatalf("no record is named %s", fields[0])
		}
		seen++
		want.LastEpoch = -1
		if got := hex.EncodeToString(encodeKey("payments")); got != fields[1] {
			t.Errorf("%s: the key is %s, Kafka's %s", fields[0], got, fields[1])
		}
		if got := hex.EncodeToString(encodeValue(want)); got != fields[2] && !strings.HasSuffix(fields[0], "-v0") {
			t.Errorf("%s: the value is %s, Kafka's %s", fields[0], got, fields[2])
		}
		value, err := hex.DecodeString(fields[2])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeValue(value); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read as %+v, %v", fields[0], got, err)
		}
	}
	if seen != len(records) {
		t.Errorf("%d records of %d are in the golden file", seen, len(records))
	}
}

func TestRecordsThatAreNotOursAreTold(t *testing.T) {
	if _, known, err := decodeKey([]byte{0, 1, 0, 1, 'a'}); known || err != nil {
		t.Errorf("a key of version 1: known %v, %v", known, err)
	}
	good := encodeValue(Transaction{Producer: Producer{ID: 1}, PreviousID: 1, NextID: -1, State: Ongoing})
	for name, value := range map[string][]byte{
		"nothing": nil, "one byte": {0}, "version 2": append([]byte{0, 2}, good[2:]...), "cut": good[:len(good)-1],
		"negative version": append([]byte{0xff, 0xff}, good[2:]...),
	} {
		if _, err := decodeValue(value); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	for _, state := range []State{Dead, PrepareEpochFence, 8, -1} {
		if _, err := decodeValue(encodeValue(Transaction{State: state})); err == nil {
			t.Errorf("%s is read", state)
		}
	}
	for _, key := range [][]byte{nil, {0}, {0, 0}, {0, 0, 0, 5, 'a'}} {
		if _, _, err := decodeKey(key); err == nil {
			t.Errorf("key %x is read", key)
		}
	}
}
