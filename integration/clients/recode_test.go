//go:build integration

package clients

import (
	"math/rand/v2"
	"testing"

	"github.com/firnlog/firn/integration/process"
)

// TestPD13EachClientReadsSnappyThatTheBrokerMade sends gzip to a topic that stores snappy.
func TestPD13EachClientReadsSnappyThatTheBrokerMade(t *testing.T) {
	node := process.Serve(t, process.Options{})
	sent := written{"recoded", gzip, someRecords(rand.New(rand.NewPCG(13, 13)))}
	for offset := range sent.records {
		sent.records[offset].Offset = int64(offset)
	}
	node.CreateTopic(sent.name, 1, "retention.ms=-1", "compression.type=snappy")
	franz{node}.produceTo(t, sent)
	whole := start{sent.name, "offset", 0}
	for _, r := range (franz{node}).fetch(t, whole) {
		if codec := codecs[r.Attrs.CompressionType()]; codec != snappy {
			t.Fatalf("the record at %d is stored in %s", r.Offset, codec)
		}
	}
	all := clients()
	runEach(t, all, func(t *testing.T, i int) {
		c := &all[i]
		reader := c.open(t, node)
		if !c.can(reads, snappy) {
			t.Skipf("%s does not read snappy", c.name)
		}
		expectSame(t, c.tells(reader.consume(t, []start{whole})[0]), c.tells(sent.records))
	})
}
