package tiering_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/tiering/manifest"
)

// rewritten is a life of a partition that is cleaned in the bucket: segments of the head, of leaves and of a node are
// put together, the log start moves into what was, a second pass takes in what the first has left, and what was replaced
// is collected. The steps are those from the first pass on.
type rewritten struct {
	*broker
	step    func(name string) error
	history []written
}

// rewrittenSteps is how many steps such a life has at least.
const rewrittenSteps = 60

func startRewritten(t *testing.T, step func(name string) error) *rewritten {
	s := brief()
	s.config.Shape = manifest.Shape{Head: 3, Leaf: 2, Node: 2}
	r := &rewritten{}
	s.step = func(name string) error {
		if r.step == nil || strings.HasPrefix(name, "lapse_") { // which comes again and again, with nothing to do
			return nil
		}
		return r.step(name)
	}
	r.broker = start(t, newDisks(t), s)
	for round := range 8 {
		r.write(fmt.Sprint("key ", round%3), fmt.Sprint("key ", round%4), fmt.Sprint("only ", round))
		r.broker.seal()
	}
	r.sleep(time.Minute)
	r.dropLocal()
	r.step = step
	return r
}

func (r *rewritten) live() {
	r.clean(cleanBy(500, time.Hour), r.step)
	advance(r.broker, 4)
	r.write("key 1", "key 2", "")
	r.broker.seal()
	r.sleep(3 * time.Second)
	r.clean(cleanBy(900, time.Hour), r.step)
	r.sleep(time.Minute)
	r.step = nil
}

// write produces a batch of a record for each key; for the key "" it is a tombstone of the first one.
func (r *rewritten) write(keys ...string) {
	r.t.Helper()
	builder, offset := record.NewBuilder(record.PlainProducer()), r.log().EndOffset()
	for i, key := range keys {
		one := written{offset: offset + int64(i), key: key, value: fmt.Sprint("value at ", offset), tombstone: key == ""}
		value := []byte(one.value)
		if one.tombstone {
			one.key, one.value, value = keys[0], "", nil
		}
		builder.Append(one.offset, []byte(one.key), value)
		r.history = append(r.history, one)
	}
	r.append(builder.Build())
	r.sleep(20 * time.Millisecond)
}

// checkValues checks that a log has nothing that was not written, has the last value of each key of what it reaches
// over, and can be read from everywhere.
func checkValues(b *broker, history []written) {
	b.t.Helper()
	start, end := b.log().LogStartOffset(), b.log().HighWatermark()
	last := map[string]written{}
	for _, one := range history {
		if one.offset >= start && one.offset < end {
			last[one.key] = one
		}
	}
	before := start - 1
	for _, got := range b.recordsIn(b.readAll(start)) {
		if got.offset < start {
			continue // of a batch that the start lies in
		}
		if got.offset <= before || !slices.Contains(history, got) {
			b.t.Fatalf("%v, after offset %d, is not what was written", got, before)
		}
		before = got.offset
		if last[got.key] == got {
			delete(last, got.key)
		}
	}
	if len(last) > 0 {
		b.t.Fatalf("of [%d, %d) the last values are missing: %v", start, end, last)
	}
	for offset := start; offset < end; offset++ {
		b.readAll(offset) // fails where it does not go on
	}
}

// checkCleaned checks that nothing is lost and that nothing is too much, neither in the bucket nor on the disk, and that
// a pass then leaves nothing superseded in the bucket.
func checkCleaned(b *broker, history []written) {
	b.t.Helper()
	checkValues(b, history)
	b.sleep(time.Minute)
	checkBucket(b)
	b.dropLocal()
	checkValues(b, history)
	b.clean(cleanBy(1<<20, time.Hour), nil)
	if names := get[[]string](b.t)(b.disks.files.List("compaction")); len(names) > 0 {
		b.t.Fatalf("on the disk of the cleaner there is %q", names)
	}
	b.sleep(time.Minute)
	checkBucket(b)
	checkValues(b, history)
	seen := map[string]bool{}
	start := b.log().LogStartOffset()
	for _, one := range b.recordsIn(b.readAll(start)) {
		if one.offset >= start && one.offset < b.tierState().End && seen[one.key] {
			b.t.Fatalf("%v is there twice after all was cleaned", one.key)
		}
		seen[one.key] = true
	}
}

func TestACrashAtAnyStepOfARewriteLosesNothing(t *testing.T) {
	count := &counter{}
	synctest.Test(t, func(t *testing.T) {
		r := startRewritten(t, count.step)
		r.live()
		checkCleaned(r.broker, r.history)
		r.close()
	})
	if len(count.steps) < rewrittenSteps {
		t.Fatalf("only %d steps: %q", len(count.steps), count.steps)
	}
	for number := 1; number <= len(count.steps) && !t.Failed(); number++ {
		synctest.Test(t, func(t *testing.T) { crashOfARewrite(t, number) })
		if t.Failed() {
			t.Logf("at step %d, %q", number, count.steps[number-1])
		}
	}
}

// crashOfARewrite cuts the power at a step. What a client was told before, of the log start, holds afterwards.
func crashOfARewrite(t *testing.T, number int) {
	var left *disks
	var r *rewritten
	var logStart, committed int64
	count := &counter{number: number}
	count.do = func(string) error {
		left = r.disks.crash(uint64(number))
		left.bucket = r.disks.bucket.Clone()
		logStart, committed = r.log().LogStartOffset(), r.log().HighWatermark()
		return nil
	}
	r = startRewritten(t, count.step)
	r.live()
	r.kill()
	if left == nil {
		return // timing makes a step more or less
	}
	after := start(t, left, r.setup)
	if got := after.log().HighWatermark(); got < committed {
		t.Fatalf("the log ends at %d, but %d had been committed", got, committed)
	}
	if got := after.log().LogStartOffset(); got < logStart {
		t.Fatalf("the log begins at %d, but had begun at %d", got, logStart)
	}
	checkCleaned(after, r.history)
	after.close()
}
