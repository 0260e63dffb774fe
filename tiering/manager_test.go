package tiering_test

import (
	"bytes"
	"testing"
)

func TestASealedSegmentSinksIntoTheBucketAndIsReadFromThere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := start(t, newDisks(t), usual())
		for i := range 10 {
			b.produce(5, int64(1000+10*i))
			b.produce(5, int64(1000+10*i+5))
			b.seal()
		}
		want := b.readAll(0)
		b.dropLocal()
		got := b.readAll(0)
		if !bytes.Equal(got, want) || len(b.keys()) != 10 {
			t.Errorf("%d objects, %d bytes instead of %d: %v", len(b.keys()), len(got), len(want), b.failures())
		}
		b.close()
	})
}
