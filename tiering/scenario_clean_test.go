package tiering_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/tiering/verify"
)

// write producer=7: a batch of records, a line "KEY=VALUE" each; "KEY" alone is a tombstone. With a producer it is a
// part of its transaction.
func (s *script) write(td *datadriven.TestData) string {
	options := record.PlainProducer()
	if id := number(td, "producer", record.NoProducerID); id != record.NoProducerID {
		options.ProducerID, options.ProducerEpoch, options.Transactional = id, 0, true
		options.BaseSequence = s.sequences[id]
		s.sequences[id] += int32(strings.Count(td.Input, "\n") + 1)
	}
	builder := record.NewBuilder(options)
	for line := range strings.Lines(td.Input) {
		key, text, found := strings.Cut(strings.TrimSpace(line), "=")
		var value []byte
		if found {
			value = []byte(text)
		}
		builder.Append(s.next, []byte(key), value)
		s.next++
	}
	s.broker.append(builder.Build())
	s.broker.sleep(20 * time.Millisecond) // until it is flushed
	return fmt.Sprintf("end %d", s.broker.log().EndOffset())
}

// end producer=7 commit|abort: its transaction.
func (s *script) end(td *datadriven.TestData) string {
	marker := record.EndMarker{Type: record.Commit}
	if td.HasArg("abort") {
		marker.Type = record.Abort
	}
	s.broker.append(record.NewEndMarker(number(td, "producer", 0), 0, s.next, marker))
	s.broker.sleep(20 * time.Millisecond)
	return fmt.Sprintf("end %d", s.broker.log().EndOffset())
}

// clean segment-bytes=1000 delete-retention=1m: one pass of the log cleaner over what is in the bucket.
func (s *script) clean(td *datadriven.TestData) string {
	status := s.broker.clean(cleanBy(number(td, "segment-bytes", 1<<30),
		duration(td, "delete-retention", 24*time.Hour)), nil)
	switch {
	case status.Failure != nil:
		return "set aside: " + withoutIDs(status.Failure)
	case status.BrokenOff != nil:
		return "broken off: " + withoutIDs(status.BrokenOff)
	case status.Passes == 0:
		return "nothing is dirty"
	}
	stats := status.Stats
	return fmt.Sprintf("dirty [%d, %d), %d of %d records kept, %d segments written", stats.StartOffset, stats.EndOffset,
		stats.RecordsKept, stats.RecordsRead, stats.GroupsWritten)
}

func withoutIDs(err error) string { return uploadID.ReplaceAllString(err.Error(), "UPLOAD") }

// records from=O: what a consumer finds from there on, batch by batch as Fetch answers, and which transactions it is
// told were aborted.
func (s *script) records(td *datadriven.TestData) string {
	offset, upTo := number(td, "from", s.broker.log().LogStartOffset()), s.broker.log().HighWatermark()
	from := offset
	var out []string
	told := map[storage.AbortedTransaction]bool{}
	for offset < upTo {
		result, _, err := s.broker.fetch(context.Background(), storage.RemoteReadRequest{
			Offset: offset, MaxBytes: 1 << 20, AtLeastOne: true, UpTo: upTo,
		})
		if err != nil {
			out = append(out, codeOf(err))
			break
		}
		for _, aborted := range result.Aborted {
			if !told[aborted] {
				told[aborted] = true
				out = append(out, fmt.Sprintf("aborted: producer %d from %d on", aborted.ProducerID, aborted.FirstOffset))
			}
		}
		for _, one := range s.broker.recordsIn(result.Data) {
			if one.offset >= from {
				out = append(out, one.String())
			}
		}
		result.Release()
		if result.NextOffset <= offset {
			return fmt.Sprintf("no progress at offset %d", offset)
		}
		offset = result.NextOffset
	}
	return orNothing(strings.Join(out, "\n"))
}

// progress reads from every offset on, and tells where readers get to.
func (s *script) progress(*datadriven.TestData) string {
	start, end := s.broker.log().LogStartOffset(), s.broker.log().HighWatermark()
	for offset := start; offset < end; offset++ {
		s.broker.readAll(offset) // fails where it does not go on
	}
	return fmt.Sprintf("from each of [%d, %d) to the end", start, end)
}

// verify holds every byte in the bucket against the manifest.
func (s *script) verify(*datadriven.TestData) string {
	var out []string
	for _, finding := range s.broker.verified(verify.Data).Findings {
		out = append(out, fmt.Sprintf("%s: [%d, %d)", finding.Kind, finding.BaseOffset, finding.EndOffset))
	}
	return orNothing(strings.Join(out, "\n"))
}
