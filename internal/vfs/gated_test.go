package vfs

import (
	"sync"
	"testing"
)

func TestEveryOperationHoldsTheGate(t *testing.T) {
	var gate sync.RWMutex
	operations := 0
	inner := NewFaulty(NewMem(), func(op Op) error {
		operations++
		if gate.TryLock() {
			gate.Unlock()
			t.Errorf("%s went past the gate", op)
		}
		return nil
	})
	gated := NewGated(inner, &gate)
	if err := MkdirAllDurable(gated, "a/b"); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileAtomic(gated, "a/b/c", []byte("text")); err != nil {
		t.Fatal(err)
	}
	if data, err := ReadFile(gated, "a/b/c"); err != nil || string(data) != "text" {
		t.Fatal(string(data), err)
	}
	if operations < 10 {
		t.Errorf("only %d operations came through", operations)
	}
	if !gate.TryLock() {
		t.Error("the gate is still held")
	}
}
