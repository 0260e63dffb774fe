//go:build integration

package clients

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/firnlog/firn/integration/process"
)

// TestEachClientReadsWhatEachClientWrote has every client write the same records with every codec and one of 10 MB, and
// every client read what every client wrote: all of it, from an offset, and from a time. What a client itself cannot do
// is left out, as the table of clients says; what was seen to work is the matrix of the protocol page.
func TestEachClientReadsWhatEachClientWrote(t *testing.T) {
	node := process.Serve(t, process.Options{})
	all := clients()
	byWriter := make([][]written, len(all)) // nil where the client is missing
	seen := observed{cells: map[cell]bool{}}
	t.Run("write", func(t *testing.T) {
		for i, writer := range all {
			t.Run(writer.name, func(t *testing.T) {
				t.Parallel()
				byWriter[i] = writer.write(t, node)
			})
		}
	})
	t.Run("read", func(t *testing.T) {
		for i, reader := range all {
			if byWriter[i] != nil && reader.can(reads, fromAnOffset) {
				t.Run(reader.name, func(t *testing.T) {
					t.Parallel()
					reader.expectReads(t, node, byWriter, &seen)
				})
			}
		}
	})
	for i := range all {
		if byWriter[i] == nil {
			t.Logf("without %s the matrix is not complete, so it is not compared with the page", all[i].name)
			return
		}
	}
	if !t.Failed() {
		seen.expectPage(t)
	}
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
	if !c.can(writes, times) {
		for _, topic := range topics {
			takeTimes(topic.records, franz{node}.consumeFrom(t, start{topic.name, "offset", 0}))
		}
	}
	return topics
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

// expectReads has the client read what each client wrote, as far as it can.
func (c *client) expectReads(t *testing.T, node *process.Node, byWriter [][]written, seen *observed) {
	t.Helper()
	type reading struct {
		start
		writer *client
		codec  feature
		want   []record
	}
	var readings []reading
	for i, writer := range clients() {
		for _, topic := range byWriter[i] {
			sent := topic.records
			if !c.can(reads, topic.codec) || len(sent) == 1 && !c.can(reads, large) {
				continue
			}
			add := func(kind string, at int64, from int) {
				readings = append(readings, reading{start{topic.name, kind, at}, &writer, topic.codec, sent[from:]})
			}
			middle := len(sent) / 2
			add("offset", int64(middle), middle)
			if middle == 0 {
				continue
			}
			add("offset", 0, 0)
			if c.can(reads, fromATime) {
				at := sent[len(sent)-20].Timestamp
				add("time", at, slices.IndexFunc(sent, func(r record) bool { return r.Timestamp >= at }))
			}
		}
	}
	starts := make([]start, len(readings))
	for i, reading := range readings {
		starts[i] = reading.start
	}
	got := c.open(t, node).consume(t, starts)
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

// takeTimes gives records the times that their writer has set.
func takeTimes(sent, read []record) {
	for i := range min(len(sent), len(read)) {
		sent[i].Timestamp = read[i].Timestamp
	}
}
