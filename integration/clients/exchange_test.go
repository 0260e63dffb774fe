//go:build integration

package clients

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/integration/process"
)

// together is how many clients run at the same time: most of them wait more than they compute.
const together = 4

// TestEachClientReadsWhatEachClientWrote has every client write the same records with every codec and one of 10 MB, and
// every client read what every client wrote: all of it, from an offset, and from a time. What a client itself cannot do
// is left out, as the table of clients says; what was seen to work is the matrix of the protocol page.
func TestEachClientReadsWhatEachClientWrote(t *testing.T) {
	node := process.Serve(t, process.Options{})
	all := clients()
	byWriter := make([][]written, len(all)) // nil where the client is missing
	seen := observed{cells: map[cell]bool{}}
	t.Run("write", func(t *testing.T) {
		runEach(t, all, func(t *testing.T, i int) { byWriter[i] = all[i].write(t, node) })
	})
	t.Run("read", func(t *testing.T) {
		runEach(t, all, func(t *testing.T, i int) { all[i].expectReads(t, node, byWriter, &seen) })
	})
	for i := range all {
		if byWriter[i] == nil {
			t.Logf("without what %s writes the matrix is not compared with the page", all[i].name)
			return
		}
	}
	if !t.Failed() {
		expectOnPage(t, "clients", seen.table(t, exchanged))
	}
}

// runEach runs a subtest of each client, a few at a time.
func runEach(t *testing.T, all []client, test func(t *testing.T, i int)) {
	t.Helper()
	var running sync.WaitGroup
	slots := make(chan struct{}, together)
	for i := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			t.Run(all[i].name, func(t *testing.T) { test(t, i) })
		})
	}
	running.Wait()
}

// write makes topics and writes to them what the client can write.
func (c *client) write(t *testing.T, node *process.Node) []written {
	t.Helper()
	writer := c.open(t, node)
	topics := c.topics()
	for _, topic := range topics {
		node.CreateTopic(topic.name, 1, "retention.ms=-1", fmt.Sprintf("max.message.bytes=%d", maxMessageBytes))
	}
	writer.produce(t, topics)
	for _, topic := range topics {
		stored := franz{node}.fetch(t, start{topic.name, "offset", 0})
		expectCodec(t, topic, stored)
		if !c.can(writes, times) {
			for i := range min(len(stored), len(topic.records)) {
				topic.records[i].Timestamp = stored[i].Timestamp.UnixMilli()
			}
		}
	}
	return topics
}

// expectCodec checks that batches are compressed as was asked for. A client may leave one as it is that gets no smaller.
func expectCodec(t *testing.T, topic written, stored []*kgo.Record) {
	t.Helper()
	compressed := 0
	for _, r := range stored {
		switch codec := codecs[r.Attrs.CompressionType()]; codec {
		case topic.codec:
			compressed++
		case plain:
		default:
			t.Fatalf("%s has a batch with codec %s", topic.name, codec)
		}
	}
	if compressed*2 < len(stored) {
		t.Errorf("of the %d records in %s only %d are in batches with that codec", len(stored), topic.name, compressed)
	}
}

// topics are those that the client writes: one for each codec, and one of a large record.
func (c *client) topics() []written {
	name := strings.ReplaceAll(c.name, " ", "-") + "-"
	var all []written
	for _, codec := range codecs {
		all = append(all, written{name + string(codec), codec, someRecords(rand.New(rand.NewPCG(1, 2)))})
	}
	value := noise(rand.New(rand.NewPCG(5, 6)), 10<<20)
	all = append(all, written{name + "large", plain, []record{{Timestamp: someTime, Key: []byte("large"), Value: value}}})
	all = slices.DeleteFunc(all, func(topic written) bool { return !c.can(writes, topic.codec) })
	for i := range all {
		all[i].records = slices.DeleteFunc(all[i].records, func(r record) bool { return !c.can(writes, r.needs()...) })
		for offset := range all[i].records {
			all[i].records[offset].Offset = int64(offset)
		}
	}
	return slices.DeleteFunc(all, func(topic written) bool { return len(topic.records) == 0 })
}

// reading is something that a client is to read.
type reading struct {
	start
	writer *client
	codec  feature
	want   []record
}

// readings are those of what every client wrote, as far as the client can read it: the whole of each topic, and then from
// somewhere in it, by offset or by time in turns.
func (c *client) readings(byWriter [][]written) []reading {
	var all []reading
	for i, writer := range clients() {
		for j, topic := range byWriter[i] {
			sent := topic.records
			if !c.can(reads, topic.codec) || slices.Contains(sent[0].needs(), large) && !c.can(reads, large) {
				continue
			}
			add := func(kind string, at int64, from int) {
				all = append(all, reading{start{topic.name, kind, at}, &writer, topic.codec, sent[from:]})
			}
			add("offset", 0, 0)
			if middle := len(sent) / 2; middle > 0 && j%2 == 0 {
				add("offset", int64(middle), middle)
			} else if middle > 0 && c.can(reads, fromATime) {
				at := sent[len(sent)-20].Timestamp
				add("time", at, slices.IndexFunc(sent, func(r record) bool { return r.Timestamp >= at }))
			}
		}
	}
	return all
}

// expectReads has the client read what each client wrote, as far as it can.
func (c *client) expectReads(t *testing.T, node *process.Node, byWriter [][]written, seen *observed) {
	t.Helper()
	readings := c.readings(byWriter)
	if len(readings) == 0 {
		t.Skip("nothing that it could read")
	}
	starts := make([]start, len(readings))
	for i, reading := range readings {
		starts[i] = reading.start
	}
	got := c.open(t, node).consume(t, starts)
	if len(got) != len(starts) {
		t.Fatalf("%d reads, want %d", len(got), len(starts))
	}
	for i, reading := range readings {
		t.Run(fmt.Sprintf("%s by %s %d", reading.topic, reading.kind, reading.at), func(t *testing.T) {
			expectSame(t, c.tells(got[i]), c.tells(reading.want))
			shown := []feature{reading.codec, times}
			for _, r := range reading.want {
				shown = append(shown, r.needs()...)
			}
			seen.add(reading.writer, writes, shown...)
			seen.add(c, reads, append(shown, feature("by "+reading.kind))...)
		})
	}
}
