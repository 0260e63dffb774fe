//go:build integration

package process

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
)

// TestAnAnswerUnderWayOutlivesItsSegment has a client begin to read an answer of 30 MB, which the kernel sends from the
// file, and stop; retention deletes the file; the client reads on and gets every batch.
func TestAnAnswerUnderWayOutlivesItsSegment(t *testing.T) {
	const batches, batchBytes = 40, 800 << 10
	node := Serve(t, Options{Set: []string{"log.retention.check.interval.ms=100"}})
	node.CreateTopic("t", 1)
	writer := node.dial(t)
	for range batches {
		if err := writer.exchange(encodedProduce("t", 0, batchBytes)); err != nil {
			t.Fatal(err)
		}
	}
	reader := node.dial(t)
	if _, err := reader.Write(encodedLargeFetch("t", 64<<20)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(reader, reader.header[:]); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(reader.header[:]))
	if len(answer) < batches*batchBytes {
		t.Fatalf("an answer of %d bytes", len(answer))
	}
	if _, err := io.ReadFull(reader, answer[:1000]); err != nil {
		t.Fatal(err)
	}
	node.CLI("topic", "alter", "t", "-c", "retention.ms=1").Output(t)
	segment := filepath.Join(node.Dir, "log", "t-0", strings.Repeat("0", 20)+".log")
	deadline := time.Now().Add(patience)
	for gone := false; !gone; {
		sample(50*time.Millisecond, func() {
			_, err := os.Stat(segment)
			gone = os.IsNotExist(err)
		})
		if time.Now().After(deadline) {
			t.Fatal("retention does not delete the segment")
		}
	}
	if _, err := io.ReadFull(reader, answer[1000:]); err != nil {
		t.Fatal(err)
	}
	const beforeBody = 4 + 1 // the correlation id, and no tags
	response := kmsg.NewPtrFetchResponse()
	response.SetVersion(12)
	if err := response.ReadFrom(answer[beforeBody:]); err != nil {
		t.Fatal(err)
	}
	data, read := response.Topics[0].Partitions[0].RecordBatches, 0
	for ; len(data) > 0; read++ {
		batch, rest, err := record.Next(data)
		if err == nil {
			err = batch.VerifyCRC()
		}
		if err != nil {
			t.Fatalf("batch %d: %v", read, err)
		}
		data = rest
	}
	if read != batches {
		t.Errorf("%d of %d batches", read, batches)
	}
	node.Stop()
}

// encodedLargeFetch reads a partition from its begin, as much of it as there is.
func encodedLargeFetch(topic string, bytes int32) []byte {
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(12)
	request.MinBytes, request.MaxBytes, request.SessionEpoch = 1, bytes, -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.PartitionMaxBytes = bytes
	from := kmsg.NewFetchRequestTopic()
	from.Topic, from.Partitions = topic, append(from.Partitions, part)
	request.Topics = append(request.Topics, from)
	return encode(request)
}
