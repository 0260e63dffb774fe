package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// retryingOver makes a memory bucket that fails by rule under retries, and shows what reached it.
func retryingOver(rules ...Rule) (bucket *Retrying, memory *Memory, calls *[]string) {
	memory, calls = NewMemory(), &[]string{}
	faulty := NewFaulty(memory, func(call Call, fault Fault) {
		*calls = append(*calls, fmt.Sprintf("%s: %s", call, fault))
	}, rules...)
	return NewRetrying(faulty, quietRetrier()), memory, calls
}

func quietRetrier() *Retrier {
	return NewRetrier(slog.New(slog.DiscardHandler), rand.New(rand.NewPCG(1, 2)), DefaultRetryPolicy())
}

func TestEachOperationSurvivesARefusalALostAnswerAndAStall(t *testing.T) {
	for _, fault := range []Fault{Refuse(), LoseAnswer(), Stall()} {
		for _, operation := range []Operation{OpPut, OpPutIfAbsent, OpGet, OpStat, OpList, OpDelete} {
			if fault == Stall() && (operation == OpList || operation == OpDelete) {
				continue // they consist of requests that have deadlines of their own
			}
			rule := Rule{When: Times(1, 2, On(operation)), Then: fault}
			t.Run(rule.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					bucket, memory, calls := retryingOver(rule)
					useEachOperation(t, bucket)
					if want := "claim 4 bytes crc32c ff861f82\n"; memory.String() != want {
						t.Errorf("left:\n%s", memory)
					}
					if t.Failed() {
						t.Logf("%s", strings.Join(*calls, "\n"))
					}
				})
			})
		}
	}
}

func useEachOperation(t *testing.T, bucket Bucket) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(putString(ctx, bucket, "a/key", "0123456789"))
	created, err := bucket.PutIfAbsent(ctx, "claim", []byte("mine"))
	must(err)
	if !created {
		t.Error("the own claim was taken for somebody else's")
	}
	created, err = bucket.PutIfAbsent(ctx, "claim", []byte("ours"))
	must(err)
	if created {
		t.Error("somebody else's claim was taken for the own")
	}
	part := make([]byte, 4)
	_, err = bucket.Get(ctx, "a/key", 3, part)
	must(err)
	if string(part) != "3456" {
		t.Errorf("read %q", part)
	}
	info, err := bucket.Stat(ctx, "a/key")
	must(err)
	if info.Size != 10 {
		t.Errorf("stat: %+v", info)
	}
	var listed []string
	must(bucket.List(ctx, "", "", func(info ObjectInfo) error {
		listed = append(listed, info.Key)
		return nil
	}))
	if !slices.Equal(listed, []string{"a/key", "claim"}) {
		t.Errorf("listed %q", listed)
	}
	must(bucket.Delete(ctx, "a/key"))
}

func TestPutIfAbsentTellsItsOwnLostSuccessFromAnothersClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := Rule{When: Times(1, 1, On(OpPutIfAbsent)), Then: Refuse()}
		bucket, memory, _ := retryingOver(first)
		if _, err := memory.PutIfAbsent(t.Context(), "claim", []byte("theirs, and longer")); err != nil {
			t.Fatal(err)
		}
		if created, err := bucket.PutIfAbsent(t.Context(), "claim", []byte("mine")); created || err != nil {
			t.Errorf("another's claim: %v, %v", created, err)
		}
	})
}

func TestACutReadAsksOnlyForTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket, memory, calls := retryingOver(Rule{When: Times(1, 2, On(OpGet)), Then: CutAfter(3)})
		if err := putString(t.Context(), memory, "key", "0123456789"); err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, 9)
		if n, err := bucket.Get(t.Context(), "key", 1, dst); n != 9 || err != nil || string(dst) != "123456789" {
			t.Errorf("read %d bytes %q, %v", n, dst, err)
		}
		want := []string{"get key [1, 10): cut after 3 bytes", "get key [4, 10): cut after 3 bytes",
			"get key [7, 10): passed"}
		if !slices.Equal(*calls, want) {
			t.Errorf("calls:\n%s", strings.Join(*calls, "\n"))
		}
	})
}

func TestAListingThatBreaksGoesOnWithoutVisitingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory()
		for _, key := range []string{"a", "b", "c", "d"} {
			if err := putString(t.Context(), memory, key, key); err != nil {
				t.Fatal(err)
			}
		}
		bucket := NewRetrying(&breakingList{Bucket: memory, after: 2}, quietRetrier())
		var listed []string
		visit := func(info ObjectInfo) error {
			listed = append(listed, info.Key)
			if info.Key == "d" {
				return fs.SkipAll
			}
			return nil
		}
		if err := bucket.List(t.Context(), "", "", visit); err != nil || !slices.Equal(listed, []string{"a", "b", "c", "d"}) {
			t.Errorf("visited %q, %v", listed, err)
		}
	})
}

// breakingList gives so many keys a call and then fails.
type breakingList struct {
	Bucket
	after int
}

func (b *breakingList) List(ctx context.Context, prefix, startAfter string, visit func(ObjectInfo) error) error {
	n := 0
	failure := &Error{Operation: OpList, Bucket: "memory", Kind: ErrUnavailable}
	err := b.Bucket.List(ctx, prefix, startAfter, func(info ObjectInfo) error {
		if n == b.after {
			return failure
		}
		n++
		return visit(info)
	})
	return err
}

func TestTriesEndWithTheAttemptsOrTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket, _, calls := retryingOver(Rule{When: Always(), Then: Refuse()})
		_, err := bucket.Stat(t.Context(), "key")
		var failure *Error
		if !errors.As(err, &failure) || failure.Attempts != 8 || len(*calls) != 8 || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%d calls, %v", len(*calls), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		started := time.Now()
		_, err = bucket.Stat(ctx, "key")
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) || time.Since(started) > time.Second {
			t.Errorf("after %s: %v", time.Since(started), err)
		}
		if !strings.Contains(err.Error(), "injected") {
			t.Errorf("the last failure is not told: %v", err)
		}
	})
}

func TestWaitsGrowAndAreDrawn(t *testing.T) {
	retrier := quietRetrier()
	for attempt, bound := range map[int]time.Duration{1: 100 * time.Millisecond, 4: 800 * time.Millisecond,
		9: 20 * time.Second, 70: 20 * time.Second} {
		least, most := time.Duration(1<<62), time.Duration(0)
		for range 1000 {
			wait := retrier.backoff(attempt)
			least, most = min(least, wait), max(most, wait)
		}
		if most > bound || most < bound*9/10 || least > bound/10 {
			t.Errorf("before attempt %d: %s to %s, bound %s", attempt+1, least, most, bound)
		}
	}
}

func TestTheLimiterHalvesOnSlowDownAndRecoversSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter()
		acquire := func() {
			t.Helper()
			if err := limiter.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		finish := func(result outcome) { acquire(); limiter.Release(result) }
		for range 10 {
			finish(outcomeSlowDown) // all within a second: one event
		}
		if limiter.Limit() != 32 {
			t.Errorf("after one event: %d", limiter.Limit())
		}
		for range 10 {
			time.Sleep(time.Second)
			finish(outcomeSlowDown)
		}
		if limiter.Limit() != 1 {
			t.Errorf("after eleven events: %d", limiter.Limit())
		}
		finish(outcomeSuccess)
		if limiter.Limit() != 2 {
			t.Errorf("after one success: %d", limiter.Limit())
		}
		finish(outcomeUnknown)
		for range 3000 {
			finish(outcomeSuccess)
		}
		if limiter.Limit() != 64 {
			t.Errorf("after many successes: %d", limiter.Limit())
		}
	})
}

func TestRequestsWaitTheirTurnAtTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter()
		for range maxRequestsInFlight {
			if err := limiter.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		order := make(chan int, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 3 {
			waitCtx := t.Context()
			if i == 1 {
				waitCtx = ctx
			}
			go func() {
				if err := limiter.Acquire(waitCtx); err == nil {
					order <- i
				}
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		for range 2 {
			limiter.Release(outcomeUnknown)
			synctest.Wait()
		}
		if first, second := <-order, <-order; first != 0 || second != 2 || len(order) != 0 {
			t.Errorf("admitted %d, then %d", first, second)
		}
	})
}

func TestMetricsCountAttemptsBytesRetriesAndFailuresByStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		store := newStandIn(t)
		failures := 2
		store.intercept = func(request *http.Request, _ []byte) *http.Response {
			if failures > 0 {
				failures--
				return refusal(503, "SlowDown", "x")
			}
			return nil
		}
		_, client, _ := s3Under(t, store, schemeS3, nil)
		opened := &Store{retrier: client.retrier, label: client.name()}
		metrics, err := NewMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		opened.wrap(client, metrics)
		if err := putString(t.Context(), opened, "key", "0123456789"); err != nil {
			t.Fatal(err)
		}
		if _, err := opened.Get(t.Context(), "key", 8, make([]byte, 5)); err == nil {
			t.Error("a read past the end succeeded")
		}
		if _, err := opened.Stat(t.Context(), "missing"); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		want := []string{
			"firn_objectstore_bytes_total get s3://bucket 2",
			"firn_objectstore_bytes_total put s3://bucket 10",
			"firn_objectstore_bytes_total stat s3://bucket 0",
			"firn_objectstore_duration_seconds get s3://bucket 1",
			"firn_objectstore_duration_seconds put s3://bucket 3",
			"firn_objectstore_duration_seconds stat s3://bucket 1",
			"firn_objectstore_errors_total put 503 SlowDown s3://bucket 2",
			"firn_objectstore_requests_total get s3://bucket 1",
			"firn_objectstore_requests_total put s3://bucket 3",
			"firn_objectstore_requests_total stat s3://bucket 1",
			"firn_objectstore_retries_total put s3://bucket 2",
		}
		if got := gather(t, registry); !slices.Equal(got, want) {
			t.Errorf("metrics:\n%s", strings.Join(got, "\n"))
		}
		if _, err := NewMetrics(registry); err != nil {
			t.Errorf("a second bucket in the same process: %v", err)
		}
	})
}

func gather(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			values := map[string]string{}
			for _, label := range metric.GetLabel() {
				values[label.GetName()] = label.GetValue()
			}
			value := metric.GetCounter().GetValue()
			if histogram := metric.GetHistogram(); histogram != nil {
				value = float64(histogram.GetSampleCount())
			}
			line := strings.Join([]string{family.GetName(), values["operation"], values["status"], values["bucket"],
				fmt.Sprint(value)}, " ")
			lines = append(lines, strings.ReplaceAll(line, "  ", " "))
		}
	}
	slices.Sort(lines)
	return lines
}
