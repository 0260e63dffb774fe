package txn

import (
	"testing"
)

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
