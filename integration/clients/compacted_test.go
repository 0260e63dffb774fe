//go:build integration

package clients

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/integration/process"
)

// stuckOnEmptyBatches are clients that ask again and again for the offset of a batch without records: segmentio's
// wherever it meets one (segmentio/kafka-go#813), kafkajs where an answer has no others, as a segment of which only such
// batches are left. They read only logs whose producers are not remembered, which have no such batches.
var stuckOnEmptyBatches = []string{"segmentio", "kafkajs"}

// compacted is a compacted topic, and what is left in it.
type compacted struct {
	name  string
	codec feature
	// idempotent producers leave batches without records.
	idempotent bool
	left       []record
}

// TestTrap29EachClientReadsACompactedLogToItsEnd has every client read logs that were compacted: with offsets that are
// missing within batches and between them, batches without any records, which only keep what is known of their
// producers, and tombstones. It reads from the begin and from offsets that are not there any more.
func TestTrap29EachClientReadsACompactedLogToItsEnd(t *testing.T) {
	t.Parallel()
	node := process.Serve(t, process.Options{})
	topics := []compacted{{name: "compacted-without-idempotence", codec: plain}}
	for _, codec := range codecs {
		topics = append(topics, compacted{name: "compacted-" + string(codec), codec: codec, idempotent: true})
	}
	for i := range topics {
		topics[i].make(t, node)
	}
	all := clients()
	runEach(t, all, func(t *testing.T, i int) {
		c := all[i]
		reader := c.open(t, node)
		var starts []start
		var want [][]record
		for _, topic := range topics {
			if !c.can(reads, topic.codec) || topic.idempotent && slices.Contains(stuckOnEmptyBatches, c.name) {
				continue
			}
			records := topic.left
			for _, from := range []int64{0, 1, firstMissing(t, records), records[len(records)-2].Offset + 1} {
				at := 0
				for records[at].Offset < from {
					at++
				}
				starts, want = append(starts, start{topic.name, "offset", from}), append(want, records[at:])
			}
		}
		got := reader.consume(t, starts)
		if len(got) != len(starts) {
			t.Fatalf("%d reads, want %d", len(got), len(starts))
		}
		for i := range starts {
			t.Run(fmt.Sprintf("%s from %d", starts[i].topic, starts[i].at), func(t *testing.T) {
				expectSame(t, c.tells(got[i]), c.tells(want[i]))
			})
		}
	})
}

// make makes the topic and has it compacted: of each key the last record is left, in its place.
func (c *compacted) make(t *testing.T, node *process.Node) {
	t.Helper()
	node.CreateTopic(c.name, 1, "cleanup.policy=compact", "internal.segment.bytes=8000", "index.interval.bytes=300")
	random := rand.New(rand.NewPCG(7, 8))
	var sent []record
	const rounds, each = 8, 40
	for round := range rounds { // each with a producer id of its own
		var records []record
		for i := range each {
			r := record{
				Offset: int64(len(sent) + i), Timestamp: someTime + int64(len(sent)+i),
				Key: fmt.Appendf(nil, "key %d", random.IntN(30)), Value: noise(random, 100),
			}
			switch {
			case i == 5:
				r.Key = fmt.Appendf(nil, "only in round %d", round)
			case i%17 == 16:
				r.Value = nil
			}
			records = append(records, r)
		}
		c.produce(t, node, records)
		sent = append(sent, records...)
		// The only batch of a producer whose only record goes.
		alone := record{
			Offset: int64(len(sent)), Timestamp: someTime + int64(len(sent)), Key: []byte("of the round before"),
			Value: noise(random, 100),
		}
		c.produce(t, node, []record{alone})
		sent = append(sent, alone)
	}
	node.CLI("topic", "compact", c.name).Output(t)
	last := record{Offset: int64(len(sent)), Timestamp: someTime, Key: []byte("last"), Value: []byte("of all")}
	c.produce(t, node, []record{last})
	sent = append(sent, last)
	newest := map[string]int64{}
	for _, r := range sent {
		newest[string(r.Key)] = r.Offset
	}
	for _, r := range sent {
		if newest[string(r.Key)] == r.Offset {
			c.left = append(c.left, r)
		}
	}
}

func (c *compacted) produce(t *testing.T, node *process.Node, records []record) {
	t.Helper()
	var options []kgo.Opt
	if !c.idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	franz{node}.produceTo(t, written{c.name, c.codec, records}, options...)
}

// firstMissing is the first offset that is not there any more.
func firstMissing(t *testing.T, records []record) int64 {
	t.Helper()
	for i := range records {
		if i > 0 && records[i].Offset > records[i-1].Offset+1 {
			return records[i-1].Offset + 1
		}
	}
	t.Fatal("nothing is missing")
	return 0
}
