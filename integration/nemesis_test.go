package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/tiering/objectstore"
)

// TestNemesis does to a broker, in an order that a seed decides, all that may happen to one, while producers and
// consumers go on. FIRN_SEED=n replays one seed; FIRN_SEEDS=n tries so many instead of a few.
func TestNemesis(t *testing.T) {
	first, count := uint64(0), uint64(6)
	if text := os.Getenv("FIRN_SEED"); text != "" {
		first, count = try(strconv.ParseUint(text, 10, 64)).orFail(t), 1
	} else if text := os.Getenv("FIRN_SEEDS"); text != "" {
		count = try(strconv.ParseUint(text, 10, 64)).orFail(t)
	}
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("again: FIRN_SEED=%d go test ./integration -run TestNemesis", seed)
				}
			})
			run(t, seed, nil, func(s *scenario) { newNemesis(s).run() })
		})
	}
}

// nemesis is one run: two partitions, and what happens to them.
type nemesis struct {
	s          *scenario
	countdown  *atomic.Int64 // of disk operations, to a power cut
	partitions []*watched
	stays      *watched // a partition that does not sink, with a consumer that follows it
	sinks      *watched // one that sinks, and whose records are deleted now and then
	sent       int
}

// watched is a partition with all that is known of it.
type watched struct {
	topic    string
	ledger   ledger
	producer *stream
	// Records before deleted are gone for sure, and those before maybeDeleted may be: the broker ended before it answered.
	deleted, maybeDeleted int64
}

func newNemesis(s *scenario) *nemesis {
	s.t.Helper()
	s.wrapBucket = asOpened // a store that hangs is given up: what is asked of it once would else never end
	s.restart()
	n := &nemesis{s: s, countdown: s.cutAtFileOperation()}
	n.stays = n.watch("stays", map[string]string{"internal.segment.bytes": "5000", "index.interval.bytes": "300"})
	n.sinks = n.watch("sinks", tiered(map[string]string{"internal.segment.bytes": "8000"}))
	n.partitions = []*watched{n.stays, n.sinks}
	return n
}

func (n *nemesis) watch(topic string, settings map[string]string) *watched {
	n.s.t.Helper()
	n.s.createTopic(topic, 1, settings)
	codec := codecs[[]string{"none", "gzip", "snappy", "lz4", "zstd"}[n.s.random.IntN(5)]]
	w := &watched{topic: topic}
	w.producer = n.s.stream(&w.ledger, kgo.ProducerBatchMaxBytes(3000), kgo.ProducerBatchCompression(codec))
	return w
}

// actions are what may happen. Some are more likely, by being named more often.
func (n *nemesis) actions() []action {
	produce, pause := action{"produce", n.produce}, action{"pause", n.pause}
	return []action{
		produce, produce, produce, produce, produce, pause, pause,
		{"clean restart", n.s.restart},
		{"crash", func() { n.s.crash(loseAnything) }},
		{"a crash to come", func() { n.countdown.Store(1 + n.s.random.Int64N(150)) }},
		{"a crash to come", func() { n.countdown.Store(1 + n.s.random.Int64N(20)) }},
		{"connections reset", func() { n.s.network.Disconnect(brokerHost, clientHost) }},
		{"delete records", n.deleteRecords},
		{"roll at other sizes", n.alterSegments},
		{"the bucket is away", func() { n.breakBucket(objectstore.Refuse()) }},
		{"the bucket loses answers", func() { n.breakBucket(objectstore.LoseAnswer()) }},
		{"the bucket hangs", func() { n.breakBucket(objectstore.Stall()) }},
		{"the bucket is back", func() { n.s.bucket.SetRules() }},
	}
}

type action struct {
	name string
	do   func()
}

const nemesisSteps = 50

func (n *nemesis) run() {
	s := n.s
	s.t.Helper()
	stopFollowing := s.follow(n.stays.topic, 0, &n.stays.ledger)
	actions := n.actions()
	for range nemesisSteps {
		next := actions[s.random.IntN(len(actions))]
		s.t.Logf("%v %s", time.Now().Format(time.TimeOnly), next.name)
		next.do()
		if s.isOff() {
			s.crash(loseNothing)
		}
	}
	n.countdown.Store(0)
	if s.isOff() {
		s.crash(loseNothing)
	}
	s.bucket.SetRules()
	for _, w := range n.partitions {
		w.producer.wait()
	}
	s.sink(n.sinks.topic)
	for _, w := range n.partitions {
		n.check(w)
	}
	stopFollowing()
	n.sinks.producer.client.Close()
	try(s.admin().DeleteTopic(s.context(), n.sinks.topic)).orFail(s.t)
	s.eventually("the bucket is empty", func() bool { return len(s.objects()) == 0 })
	s.stop()
	s.verifyLogs()
}

func (n *nemesis) check(w *watched) {
	s := n.s
	s.t.Helper()
	start := s.offsetAt(w.topic, earliest)
	if start < w.deleted || start > w.maybeDeleted {
		s.t.Errorf("%s starts at %d: [%d, %d] is what was asked for", w.topic, start, w.deleted, w.maybeDeleted)
	}
	records := s.read(w.topic, 0, start)
	w.ledger.check(s.t, start, records)
	expectOnceInOrder(s.t, records, w.producer.sent[start:])
}

func (n *nemesis) produce() {
	for _, w := range n.partitions {
		for range 1 + n.s.random.IntN(10) {
			count := 1 + n.s.random.IntN(12)
			w.producer.send(numbered(w.topic, 0, n.sent, count, n.s.random.IntN(300))...)
			n.sent += count
			time.Sleep(time.Duration(n.s.random.IntN(20)) * time.Millisecond)
		}
	}
}

func (n *nemesis) pause() {
	n.s.sleep(time.Duration(n.s.random.ExpFloat64() * float64(5*time.Second)))
}

func (n *nemesis) breakBucket(fault objectstore.Fault) {
	n.s.bucket.SetRules(objectstore.Rule{When: objectstore.Always(), Then: fault})
}

// attempt does something through an admin client that may be cut off, and tells whether it was answered.
func (n *nemesis) attempt(do func(ctx context.Context, admin *kadm.Client) error) bool {
	n.s.t.Helper()
	ctx, cancel := context.WithTimeout(n.s.context(), 20*time.Second)
	defer cancel()
	err := do(ctx, n.s.admin())
	if err != nil && !n.s.isOff() {
		n.s.t.Error(err)
	}
	return err == nil
}

func (n *nemesis) deleteRecords() {
	w := n.sinks
	end, known := int64(0), w.ledger.size()
	if known > 0 {
		end = n.s.random.Int64N(int64(known))
	}
	if end <= w.maybeDeleted {
		return
	}
	w.maybeDeleted = end
	if n.attempt(func(ctx context.Context, admin *kadm.Client) error {
		offsets := kadm.Offsets{}
		offsets.AddOffset(w.topic, 0, end, -1)
		responses, err := admin.DeleteRecords(ctx, offsets)
		return errors.Join(err, responses.Error())
	}) {
		w.deleted = end
	}
}

func (n *nemesis) alterSegments() {
	size := strconv.Itoa(4000 + n.s.random.IntN(20_000))
	n.attempt(func(ctx context.Context, admin *kadm.Client) error {
		change := kadm.AlterConfig{Op: kadm.SetConfig, Name: "internal.segment.bytes", Value: &size}
		_, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, n.sinks.topic, n.stays.topic)
		return err
	})
}
