package checkpoint

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/objectstore"
)

func TestOfManyWhoTakeAClusterOverOneSucceeds(t *testing.T) {
	bucket := objectstore.NewMemory()
	var (
		group  sync.WaitGroup
		mu     sync.Mutex // guards winner
		winner []kafka.UUID
	)
	for i := range 16 {
		group.Go(func() {
			err := Take(t.Context(), bucket, ours, id(byte(i)), time.UnixMilli(1000))
			var taken *TakenError
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				winner = append(winner, id(byte(i)))
			case !errors.As(err, &taken) || !errors.Is(err, ErrSuperseded):
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(winner) != 1 {
		t.Fatalf("%d have succeeded", len(winner))
	}
	must(t, Take(t.Context(), bucket, ours, winner[0], time.UnixMilli(2000))) // its answer was lost
	owner, err := Owner(t.Context(), bucket, ours)
	if err != nil || owner != winner[0] {
		t.Errorf("the owner is %s, %v", owner.Hex(), err)
	}
}

func TestAClaimHoldsUntilSomebodyElseClaims(t *testing.T) {
	bucket, now := objectstore.NewMemory(), time.UnixMilli(1000)
	check := func(cluster kafka.UUID, predecessors ...kafka.UUID) error {
		return NewClaim(bucket, cluster, func() ([]kafka.UUID, error) { return predecessors, nil }).Check(t.Context())
	}
	must(t, check(ours))
	if err := check(theirs, ours); !errors.Is(err, ErrSuperseded) {
		t.Errorf("objects of a cluster that nobody has taken over: %v", err)
	}
	must(t, Take(t.Context(), bucket, ours, theirs, now))
	must(t, check(theirs, ours))
	if err := check(ours); !errors.Is(err, ErrSuperseded) {
		t.Errorf("the old cluster: %v", err)
	}
	must(t, Take(t.Context(), bucket, theirs, third, now)) // a restore of a restore
	must(t, check(third, theirs, ours))
	for _, old := range []error{check(ours), check(theirs, ours)} {
		if !errors.Is(old, ErrSuperseded) {
			t.Errorf("an old cluster: %v", old)
		}
	}
}

func TestOnlyANamedSuccessorIsReplaced(t *testing.T) {
	bucket, now := objectstore.NewMemory(), time.UnixMilli(1000)
	must(t, Take(t.Context(), bucket, ours, theirs, now))
	if err := Replace(t.Context(), bucket, ours, id(9), third, now); !errors.Is(err, ErrSuperseded) ||
		!strings.Contains(err.Error(), theirs.Hex()) {
		t.Errorf("another successor is named: %v", err)
	}
	must(t, Replace(t.Context(), bucket, ours, theirs, third, now))
	if err := NewClaim(bucket, theirs, func() ([]kafka.UUID, error) { return []kafka.UUID{ours}, nil }).Check(t.Context()); !errors.Is(err,
		ErrSuperseded) {
		t.Errorf("whoever was replaced: %v", err)
	}
	must(t, Replace(t.Context(), bucket, theirs, id(9), third, now)) // nobody had taken it over
}

func TestAClaimThatMakesNoSenseIsNobodys(t *testing.T) {
	for _, text := range []string{"", "{}", `{"cluster":"` + ours.Hex() + `","successor":"x"}`,
		`{"cluster":"` + theirs.Hex() + `","successor":"` + third.Hex() + `"}`, strings.Repeat("x", 5000)} {
		bucket := objectstore.NewMemory()
		if text == "" {
			text = " "
		}
		put(t, bucket, claimKey(ours), []byte(text))
		var corrupt *CorruptError
		if _, err := Owner(t.Context(), bucket, ours); !errors.As(err, &corrupt) {
			t.Errorf("%.40q: %v", text, err)
		}
		if err := Take(t.Context(), bucket, ours, theirs, time.Now()); err == nil {
			t.Errorf("%.40q is overwritten", text)
		}
	}
	circle := objectstore.NewMemory()
	put(t, circle, claimKey(ours), encodeClaim(ours, theirs, time.Now()))
	put(t, circle, claimKey(theirs), encodeClaim(theirs, ours, time.Now()))
	if _, err := Owner(t.Context(), circle, ours); err == nil {
		t.Error("a circle has an owner")
	}
}
