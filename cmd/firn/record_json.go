package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordJSON is a record as one JSON line. Nothing is lost in it: null and empty differ, bytes that are no UTF-8 text
// are base64 and say so, headers keep their order and may repeat. So what consume prints, produce can read.
type recordJSON struct {
	Topic         string       `json:"topic"`
	Partition     int32        `json:"partition"`
	Offset        int64        `json:"offset"`
	LeaderEpoch   int32        `json:"leader_epoch"`
	Timestamp     int64        `json:"timestamp"`
	TimestampType string       `json:"timestamp_type"`
	Control       bool         `json:"control,omitempty"`
	Key           *string      `json:"key"`
	KeyEncoding   string       `json:"key_encoding,omitempty"`
	Value         *string      `json:"value"`
	ValueEncoding string       `json:"value_encoding,omitempty"`
	Headers       []headerJSON `json:"headers"`
}

type headerJSON struct {
	Key           string  `json:"key"`
	KeyEncoding   string  `json:"key_encoding,omitempty"`
	Value         *string `json:"value"`
	ValueEncoding string  `json:"value_encoding,omitempty"`
}

const base64Encoding = "base64"

// textOf returns bytes as JSON can hold them, and the name of the encoding if they are no text. Null stays null.
func textOf(data []byte) (text *string, encoding string) {
	if data == nil {
		return nil, ""
	}
	plain := string(data)
	if !utf8.ValidString(plain) {
		plain, encoding = base64.StdEncoding.EncodeToString(data), base64Encoding
	}
	return &plain, encoding
}

// bytesOf is the reverse of textOf.
func bytesOf(text *string, encoding string) ([]byte, error) {
	if text == nil {
		return nil, nil
	}
	switch encoding {
	case "":
		return []byte(*text), nil
	case base64Encoding:
		data, err := base64.StdEncoding.DecodeString(*text)
		if err != nil {
			return nil, fmt.Errorf("%q is not base64: %w", *text, err)
		}
		return data, nil
	}
	return nil, fmt.Errorf("unknown encoding %q: only base64 is known", encoding)
}

func newRecordJSON(record *kgo.Record) recordJSON {
	line := recordJSON{Topic: record.Topic, Partition: record.Partition, Offset: record.Offset,
		LeaderEpoch: record.LeaderEpoch, Timestamp: record.Timestamp.UnixMilli(), TimestampType: "CreateTime",
		Control: record.Attrs.IsControl(), Headers: make([]headerJSON, 0, len(record.Headers))}
	if record.Attrs.TimestampType() == 1 {
		line.TimestampType = "LogAppendTime"
	}
	line.Key, line.KeyEncoding = textOf(record.Key)
	line.Value, line.ValueEncoding = textOf(record.Value)
	for _, header := range record.Headers {
		key, keyEncoding := textOf([]byte(header.Key)) // never null: a header's key is a string
		encoded := headerJSON{Key: *key, KeyEncoding: keyEncoding}
		encoded.Value, encoded.ValueEncoding = textOf(header.Value)
		line.Headers = append(line.Headers, encoded)
	}
	return line
}

// inputJSON is what produce reads. What only the broker decides (offset, epoch, timestamp type) may be there, as
// consume writes it, and is ignored. The topic counts where the command line names none.
type inputJSON struct {
	Topic         string          `json:"topic"`
	Partition     *int32          `json:"partition"`
	Offset        json.RawMessage `json:"offset"`
	LeaderEpoch   json.RawMessage `json:"leader_epoch"`
	Timestamp     *int64          `json:"timestamp"`
	TimestampType json.RawMessage `json:"timestamp_type"`
	Control       bool            `json:"control"`
	Key           *string         `json:"key"`
	KeyEncoding   string          `json:"key_encoding"`
	Value         json.RawMessage `json:"value"` // raw, since missing and null differ
	ValueEncoding string          `json:"value_encoding"`
	Headers       []headerJSON    `json:"headers"`
}

// parseRecordJSON reads one line. Unknown fields are refused: a misspelt one would be lost in silence.
func parseRecordJSON(line []byte) (*kgo.Record, error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	var input inputJSON
	if err := decoder.Decode(&input); err != nil {
		return nil, plainJSONError(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows the object on its line")
	}
	if input.Value == nil {
		return nil, errors.New(`"value" is missing: null is a record without one`)
	}
	var value *string
	if err := json.Unmarshal(input.Value, &value); err != nil {
		return nil, errors.New(`"value" must be a string or null`)
	}
	if input.Control {
		return nil, errors.New("it is a control record, which only the cluster writes")
	}
	record := &kgo.Record{Topic: input.Topic, Partition: anyPartition}
	if input.Partition != nil {
		record.Partition = *input.Partition
	}
	if input.Timestamp != nil {
		record.Timestamp = time.UnixMilli(*input.Timestamp)
	}
	var err error
	if record.Key, err = bytesOf(input.Key, input.KeyEncoding); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if record.Value, err = bytesOf(value, input.ValueEncoding); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	record.Headers, err = headersOf(input.Headers)
	return record, err
}

// plainJSONError leaves Go's types out of what the JSON package says.
func plainJSONError(err error) error {
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return fmt.Errorf("a JSON object is expected, not a %s", wrongType.Value)
	case errors.As(err, &wrongType):
		return fmt.Errorf("%q must not be a %s", wrongType.Field, wrongType.Value)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object does not end on its line")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

func headersOf(headers []headerJSON) ([]kgo.RecordHeader, error) {
	var decoded []kgo.RecordHeader
	for _, header := range headers {
		key, err := bytesOf(&header.Key, header.KeyEncoding)
		if err != nil {
			return nil, fmt.Errorf("key of a header: %w", err)
		}
		value, err := bytesOf(header.Value, header.ValueEncoding)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", key, err)
		}
		decoded = append(decoded, kgo.RecordHeader{Key: string(key), Value: value})
	}
	return decoded, nil
}
