package txn

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestIDsComeFromBlocksAndNeverTwice(t *testing.T) {
	blocks := int64(0)
	ids := NewProducerIDs(func(context.Context) (int64, int64, error) {
		blocks++
		return blocks * 100, blocks*100 + 3, nil
	})
	const producers, each = 4, 25
	var mu sync.Mutex
	seen := map[int64]bool{}
	var group sync.WaitGroup
	for range producers {
		group.Go(func() {
			for range each {
				id, err := ids.Next(t.Context())
				mu.Lock()
				if err != nil || seen[id] || id%100 > 2 {
					t.Errorf("id %d, seen before: %v, err: %v", id, seen[id], err)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if want := int64((producers*each + 2) / 3); blocks != want {
		t.Errorf("%d blocks were taken, want %d", blocks, want)
	}
}

func TestAFailedBlockIsAskedForAgain(t *testing.T) {
	broken := errors.New("no leader")
	fail := true
	ids := NewProducerIDs(func(context.Context) (int64, int64, error) {
		if fail {
			return 0, 0, broken
		}
		return 7, 8, nil
	})
	if _, err := ids.Next(t.Context()); !errors.Is(err, broken) {
		t.Fatalf("got %v, want the source's error", err)
	}
	fail = false
	if id, err := ids.Next(t.Context()); err != nil || id != 7 {
		t.Fatalf("got %d, %v, want 7", id, err)
	}
}

func TestWaitingForABlockEndsWithTheContext(t *testing.T) {
	release := make(chan struct{})
	asked := make(chan struct{})
	ids := NewProducerIDs(func(context.Context) (int64, int64, error) {
		close(asked)
		<-release
		return 1, 2, nil
	})
	var group sync.WaitGroup
	group.Go(func() { _, _ = ids.Next(context.Background()) })
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ids.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's end", err)
	}
	close(release)
	group.Wait()
}
