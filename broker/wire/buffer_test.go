package wire

import (
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPoolLendsExactSizesFromSizeClasses(t *testing.T) {
	pool := NewPool(64 << 20)
	for _, test := range []struct{ size, capacity int }{
		{0, 4 << 10}, {1, 4 << 10}, {4 << 10, 4 << 10}, {4<<10 + 1, 8 << 10}, {100_000, 128 << 10},
		{4 << 20, 4 << 20}, {4<<20 + 1, 4<<20 + 1},
	} {
		buffer := pool.Get(test.size)
		if len(buffer.Bytes()) != test.size {
			t.Errorf("asked for %d bytes, got %d", test.size, len(buffer.Bytes()))
		}
		if got := pool.InUseBytes(); got < int64(test.capacity) || got > int64(test.capacity)+16<<10 {
			t.Errorf("%d bytes in use for a buffer of %d", got, test.size)
		}
		buffer.Release()
	}
	if got := pool.InUseBytes(); got != 0 {
		t.Errorf("%d bytes in use after all were returned", got)
	}
}

func TestPoolUsesMemoryAgainAndCapsWhatIsIdle(t *testing.T) {
	pool := NewPool(16 << 10)
	first := pool.Get(5000)
	memory := &first.Bytes()[0]
	first.Release()
	second := pool.Get(8000)
	if &second.Bytes()[0] != memory {
		t.Error("the memory of the same class was not used again")
	}
	buffers := []*Buffer{second}
	for range 10 {
		buffers = append(buffers, pool.Get(8000))
	}
	for _, buffer := range buffers {
		buffer.Release()
	}
	if idle := pool.IdleBytes(); idle != 16<<10 {
		t.Errorf("%d bytes idle, the cap is %d", idle, 16<<10)
	}
}

func TestBufferIsReturnedWithItsLastReference(t *testing.T) {
	pool := NewPool(1 << 20)
	buffer := pool.Get(100)
	buffer.Retain()
	buffer.Release()
	if pool.IdleBytes() != 0 {
		t.Fatal("returned while somebody still held it")
	}
	buffer.Release()
	if pool.IdleBytes() == 0 {
		t.Fatal("not returned with the last reference")
	}
}

func TestBufferReleasedTwiceIsFoundOutEvenAfterItsMemoryWasLentAgain(t *testing.T) {
	pool := NewPool(1 << 20)
	buffer := pool.Get(100)
	buffer.Release()
	other := pool.Get(100)
	defer other.Release()
	for name, misuse := range map[string]func(){"release": buffer.Release, "retain": buffer.Retain} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse()
		})
	}
}

func TestPoolKeepsCountUnderRandomUse(t *testing.T) {
	pool := NewPool(1 << 20)
	random := rand.New(rand.NewPCG(1, 2))
	var held []*Buffer
	for range 2000 {
		if len(held) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(held))
			held[i].Release()
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		} else {
			held = append(held, pool.Get(random.IntN(5<<20)>>random.IntN(16)))
		}
		if idle := pool.IdleBytes(); idle < 0 || idle > 1<<20 {
			t.Fatalf("%d bytes idle", idle)
		}
	}
	for _, buffer := range held {
		buffer.Release()
	}
	if pool.InUseBytes() != 0 {
		t.Errorf("%d bytes in use at the end", pool.InUseBytes())
	}
}
