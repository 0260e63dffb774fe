package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordOutput appends a record, as it is to be printed, to dst.
type recordOutput func(dst []byte, partition *kgo.FetchPartition, record *kgo.Record) ([]byte, error)

// outputForm is how records are printed in formats that are not JSON.
type outputForm struct {
	textForm
	null    []byte // for a null key or value; nil: nothing, as for an empty one
	colours bool
}

// newRecordOutput prints in a format: text lines, JSON lines, or a percent layout.
func newRecordOutput(format string, form outputForm) (recordOutput, error) {
	switch format {
	case formatText:
		return form.append, nil
	case formatJSON, formatJSONLines:
		return appendRecordJSON, nil
	}
	return newLayoutOutput(format, form.null)
}

// append prints a record in --format text.
func (f outputForm) append(dst []byte, _ *kgo.FetchPartition, record *kgo.Record) ([]byte, error) {
	if f.separator != nil {
		if f.colours {
			dst = append(dst, colourKey...)
		}
		dst = append(dst, orNull(record.Key, f.null)...)
		if f.colours {
			dst = append(dst, colourEnd...)
		}
		dst = append(dst, f.separator...)
	}
	dst = append(dst, orNull(record.Value, f.null)...)
	return append(dst, f.delimiter...), nil
}

func orNull(data, null []byte) []byte {
	if data == nil {
		return null
	}
	return data
}

// newLayoutOutput prints by a percent layout of kgo's. To it a null has length 0, or the length of what is printed for
// it, so that a reader who goes by the length finds the next field.
func newLayoutOutput(layout string, null []byte) (recordOutput, error) {
	formatter, err := kgo.NewRecordFormatter(layout)
	if err != nil {
		return nil, fmt.Errorf("layout %q: %w", layout, err)
	}
	return func(dst []byte, partition *kgo.FetchPartition, record *kgo.Record) ([]byte, error) {
		if null != nil && (record.Key == nil || record.Value == nil) {
			shown := *record
			shown.Key, shown.Value = orNull(record.Key, null), orNull(record.Value, null)
			record = &shown
		}
		return formatter.AppendPartitionRecord(dst, partition, record), nil
	}, nil
}

func appendRecordJSON(dst []byte, _ *kgo.FetchPartition, record *kgo.Record) ([]byte, error) {
	return appendJSONLine(dst, record, newRecordJSON(record))
}

// metaJSON is a record as one JSON line, without its content.
type metaJSON struct {
	Topic         string `json:"topic"`
	Partition     int32  `json:"partition"`
	Offset        int64  `json:"offset"`
	LeaderEpoch   int32  `json:"leader_epoch"`
	Timestamp     int64  `json:"timestamp"`
	TimestampType string `json:"timestamp_type"`
	Control       bool   `json:"control,omitempty"`
	Compression   string `json:"compression"`
	ProducerID    int64  `json:"producer_id"`
	ProducerEpoch int16  `json:"producer_epoch"`
	KeyBytes      *int   `json:"key_bytes"`   // null: the key is null
	ValueBytes    *int   `json:"value_bytes"` // the same
	Headers       int    `json:"headers"`
}

func appendMetaJSON(dst []byte, _ *kgo.FetchPartition, record *kgo.Record) ([]byte, error) {
	full := newRecordJSON(&kgo.Record{Topic: record.Topic, Partition: record.Partition, Offset: record.Offset,
		LeaderEpoch: record.LeaderEpoch, Timestamp: record.Timestamp, Attrs: record.Attrs})
	compression := [...]string{"none", "gzip", "snappy", "lz4", "zstd"}
	line := metaJSON{Topic: full.Topic, Partition: full.Partition, Offset: full.Offset, LeaderEpoch: full.LeaderEpoch,
		Timestamp: full.Timestamp, TimestampType: full.TimestampType, Control: full.Control,
		ProducerID: record.ProducerID, ProducerEpoch: record.ProducerEpoch,
		KeyBytes: lengthOf(record.Key), ValueBytes: lengthOf(record.Value), Headers: len(record.Headers)}
	if codec := int(record.Attrs.CompressionType()); codec < len(compression) {
		line.Compression = compression[codec]
	}
	return appendJSONLine(dst, record, line)
}

func lengthOf(data []byte) *int {
	if data == nil {
		return nil
	}
	n := len(data)
	return &n
}

func appendJSONLine(dst []byte, record *kgo.Record, value any) ([]byte, error) {
	line := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return dst, fmt.Errorf("encode %s partition %d offset %d: %w", record.Topic, record.Partition, record.Offset, err)
	}
	return line.Bytes(), nil
}
