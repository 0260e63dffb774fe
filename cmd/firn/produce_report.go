package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// syncReport is what --sync prints for each record unless told otherwise.
const syncReport = `partition %p offset %o\n`

// reportJSON is an acknowledged record as one JSON line.
type reportJSON struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
}

// report prints acknowledged records. A nil one prints nothing.
type report struct {
	out    *bufio.Writer
	append recordOutput
	line   []byte
}

// newReport understands what --output-format says; nothing is no report.
func newReport(out io.Writer, format string) (*report, error) {
	r := &report{out: bufio.NewWriter(out)}
	switch {
	case format == "":
		return nil, nil
	case format == formatJSON || format == formatJSONLines:
		r.append = func(dst []byte, _ *kgo.FetchPartition, record *kgo.Record) ([]byte, error) {
			line, err := json.Marshal(reportJSON{record.Topic, record.Partition, record.Offset, record.Timestamp.UnixMilli()})
			return append(append(dst, line...), '\n'), err
		}
		return r, nil
	case !strings.Contains(format, "%"):
		return nil, fmt.Errorf("unknown --output-format %q: json and percent layouts such as '%%p %%o\\n' are known", format)
	}
	var err error
	r.append, err = newLayoutOutput(format, nil)
	return r, err
}

func (r *report) print(record *kgo.Record) (err error) {
	if r == nil {
		return nil
	}
	if r.line, err = r.append(r.line[:0], &kgo.FetchPartition{}, record); err != nil {
		return err
	}
	_, err = r.out.Write(r.line)
	return err
}

func (r *report) flush() error {
	if r == nil {
		return nil
	}
	return r.out.Flush()
}

// produceSummary is what was sent.
type produceSummary struct {
	Topics  []string `json:"topics"`
	Records int64    `json:"records"` // acknowledged
	Bytes   int64    `json:"bytes"`   // of their keys, values and headers
	Failed  int64    `json:"failed"`
	Unknown int64    `json:"unknown"` // neither acknowledged nor refused when the command gave up
	Seconds float64  `json:"seconds"`
	// Transaction is what became of it: committed, aborted or unknown. Empty: there was none.
	Transaction string `json:"transaction,omitempty"`
}

func (s *produceSummary) writeText(w io.Writer) error {
	text := fmt.Sprintf("produced %s (%s)", counted(int(s.Records), "record"), byteSize(s.Bytes))
	switch len(s.Topics) {
	case 0:
	case 1:
		text += " to " + s.Topics[0]
	default:
		text += fmt.Sprintf(" to %d topics", len(s.Topics))
	}
	text += fmt.Sprintf(" in %.2f s", s.Seconds)
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d failed", s.Failed)
	}
	if s.Unknown > 0 {
		text += fmt.Sprintf(", %d without an answer", s.Unknown)
	}
	switch s.Transaction {
	case transactionCommitted:
		text += ", in a transaction that was committed"
	case transactionAborted:
		text += ", in a transaction that was aborted"
	case transactionUnknown:
		text += ", in a transaction that the cluster may have committed or not"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
