package tiering_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/objectstore"
)

// poll asks for what lies at an offset for half a second, as a consumer does.
func (b *broker) poll(offset int64) (storage.RemoteReadResult, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), 500*time.Millisecond)
	defer cancel()
	return b.fetchRemote(ctx, storage.RemoteReadRequest{
		Offset: offset, MaxBytes: 1 << 20, AtLeastOne: true, UpTo: b.log().HighWatermark(),
	})
}

// Manifest, tail and data take two seconds each, and no poll waits that long: what one has begun the next ones find.
func TestPollsThatAreShorterThanARequestGetThereAllTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := start(t, newDisks(t), small())
		fill(b, 12)
		b.dropLocal()
		b.close()
		b = start(t, b.disks, b.setup) // nothing is in memory
		b.bucket.SetRules(objectstore.Rule{When: objectstore.On(objectstore.OpGet), Then: objectstore.Delay(2 * time.Second)})
		polls := 0
		for began := time.Now(); ; polls++ {
			result, err := b.poll(0)
			if err == nil && result.NextOffset > 0 {
				result.Release()
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Second {
				t.Fatalf("after %v a poll is answered with %v", time.Since(began), err)
			}
		}
		if polls < 12 {
			t.Errorf("only %d polls: the requests were not slow", polls)
		}
		b.bucket.SetRules()
		b.close()
	})
}

// A store that takes a request and never answers: polls that end with nothing would look like the end of the log.
func TestAReaderHearsThatTheStoreDoesNotAnswer(t *testing.T) {
	for _, part := range []string{".node", ".leaf", ".seg"} {
		inBubble(t, func(t *testing.T) {
			b := start(t, newDisks(t), small())
			fill(b, 12)
			b.dropLocal()
			b.close()
			b = start(t, b.disks, b.setup)
			b.bucket.SetRules(objectstore.Rule{When: objectstore.KeyContains(part), Then: objectstore.Stall()})
			for began := time.Now(); ; {
				_, err := b.poll(0)
				if errors.Is(err, kafka.KafkaStorageError) && errors.Is(err, objectstore.ErrUnavailable) {
					break
				}
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 16*time.Second {
					t.Fatalf("%s: after %v a poll is answered with %v", part, time.Since(began), err)
				}
			}
			began := time.Now()
			_, _, err := b.tier.OffsetForTimestamp(t.Context(), eventsID, 0)
			if took := time.Since(began); !errors.Is(err, kafka.KafkaStorageError) || took > 30*time.Second {
				t.Errorf("%s: a look-up by time ends after %v with %v", part, took, err)
			}
			b.bucket.SetRules()
			b.sleep(2 * time.Minute)
			if result, err := b.poll(0); err != nil || result.NextOffset == 0 {
				t.Errorf("%s: afterwards a poll is answered with %+v, %v", part, result, err)
			} else {
				result.Release()
			}
			b.close()
		})
	}
}
