package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordOutput appends a record, as it is to be printed, to dst.
type recordOutput func(dst []byte, partition *kgo.FetchPartition, record *kgo.Record) ([]byte, error)

// newRecordOutput prints in a format: text lines, JSON lines, or a percent layout.
func newRecordOutput(format string, separator []byte) (recordOutput, error) {
	switch format {
	case formatText:
		return func(dst []byte, _ *kgo.FetchPartition, record *kgo.Record) ([]byte, error) {
			if separator != nil {
				dst = append(append(dst, record.Key...), separator...)
			}
			return append(append(dst, record.Value...), '\n'), nil
		}, nil
	case formatJSON, formatJSONLines:
		return appendRecordJSON, nil
	}
	formatter, err := kgo.NewRecordFormatter(format)
	if err != nil {
		return nil, fmt.Errorf("layout %q: %w", format, err)
	}
	return func(dst []byte, partition *kgo.FetchPartition, record *kgo.Record) ([]byte, error) {
		return formatter.AppendPartitionRecord(dst, partition, record), nil
	}, nil
}

func appendRecordJSON(dst []byte, _ *kgo.FetchPartition, record *kgo.Record) ([]byte, error) {
	line := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(newRecordJSON(record)); err != nil {
		return dst, fmt.Errorf("encode %s partition %d offset %d: %w", record.Topic, record.Partition, record.Offset, err)
	}
	return line.Bytes(), nil
}
