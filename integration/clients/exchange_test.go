//go:build integration

package clients

import (
	"math/rand/v2"
	"testing"

	"github.com/firnlog/firn/integration/process"
)

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// TestEachClientReadsWhatEachClientWrote has every client write the same records with every codec, and every client
// read them: all of them, from an offset, and from a time.
func TestEachClientReadsWhatEachClientWrote(t *testing.T) {
	node := process.Serve(t, process.Options{})
	peers := map[string]func(t *testing.T) peer{
		"franz-go":        func(*testing.T) peer { return franz{node} },
		"kcat":            func(t *testing.T) peer { return newKcat(t, node) },
		"confluent-kafka": func(t *testing.T) peer { return newConfluent(t, node) },
	}
	for writer, newWriter := range peers {
		for _, codec := range codecs {
			t.Run(writer+" writes with "+codec, func(t *testing.T) {
				topic := writer + "-" + codec
				node.CreateTopic(topic, 1, "retention.ms=-1", "internal.segment.bytes=1500000")
				sent := someRecords(rand.New(rand.NewPCG(1, 2)))
				for i := range sent {
					sent[i].Offset = int64(i)
				}
				from := newWriter(t)
				from.produce(t, topic, codec, sent)
				if !from.setsTimes() {
					takeTimes(sent, franz{node}.consumeFrom(t, topic, start{"offset", 0}))
				}
				for reader, newReader := range peers {
					t.Run(reader+" reads", func(t *testing.T) { expectReads(t, newReader(t), topic, sent) })
				}
			})
		}
	}
}

// expectReads reads all records, those from an offset in the middle of a batch, and those from a time.
func expectReads(t *testing.T, reader peer, topic string, sent []record) {
	t.Helper()
	middle := int64(len(sent) - 50)
	at := sent[5].Timestamp
	first := 0
	for sent[first].Timestamp < at {
		first++
	}
	read := reader.consume(t, topic, []start{{"offset", 0}, {"offset", middle}, {"time", at}})
	expectSame(t, read[0], sent)
	expectSame(t, read[1], sent[middle:])
	expectSame(t, read[2], sent[first:])
}

// takeTimes gives records the times that their writer has set.
func takeTimes(sent, read []record) {
	for i := range min(len(sent), len(read)) {
		sent[i].Timestamp = read[i].Timestamp
	}
}
