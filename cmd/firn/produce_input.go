package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxInputLine bounds one line of input, and so the memory that input without line ends may take: larger than any
// record that a cluster with usual settings accepts.
const maxInputLine = 128 << 20

// anyPartition marks a record whose partition is chosen by its key.
const anyPartition = -1

// recordInput yields the records of an input, in order; io.EOF after the last.
type recordInput interface {
	next() (*kgo.Record, error)
}

// newRecordInput reads records in a format: text lines, JSON lines, or a percent layout.
func newRecordInput(in io.Reader, format string, separator []byte) (recordInput, error) {
	switch format {
	case formatText:
		return &lineInput{lines: newLines(in), separator: separator}, nil
	case formatJSON, formatJSONLines:
		return &jsonInput{lines: newLines(in)}, nil
	}
	reader, err := kgo.NewRecordReader(in, format)
	if err != nil {
		return nil, fmt.Errorf("layout %q: %w", format, err)
	}
	return &layoutInput{reader: reader}, nil
}

// newLines splits at line feeds only: a carriage return belongs to the record.
func newLines(in io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxInputLine)
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			return end + 1, data[:end], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	return lines
}

// endOf is why a scanner stopped.
func endOf(lines *bufio.Scanner, read int64) error {
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %s", read+1, byteSize(maxInputLine))
	}
	if err != nil {
		return fmt.Errorf("read line %d: %w", read+1, err)
	}
	return io.EOF
}

// lineInput takes each line as a value, or as key and value around a separator.
type lineInput struct {
	lines     *bufio.Scanner
	separator []byte // nil: the whole line is the value
	read      int64
}

func (l *lineInput) next() (*kgo.Record, error) {
	if !l.lines.Scan() {
		return nil, endOf(l.lines, l.read)
	}
	l.read++
	record := &kgo.Record{Partition: anyPartition}
	// The scanner uses its buffer again, and an empty line must not become a null.
	line := append([]byte{}, l.lines.Bytes()...)
	if l.separator == nil {
		record.Value = line
		return record, nil
	}
	key, value, ok := bytes.Cut(line, l.separator)
	if !ok {
		return nil, fmt.Errorf("line %d has no key separator %q", l.read, l.separator)
	}
	record.Key, record.Value = key, value
	return record, nil
}

// jsonInput takes each line as a recordJSON; blank lines are skipped.
type jsonInput struct {
	lines *bufio.Scanner
	read  int64
}

func (j *jsonInput) next() (*kgo.Record, error) {
	for j.lines.Scan() {
		j.read++
		line := bytes.TrimSpace(j.lines.Bytes())
		if len(line) == 0 {
			continue
		}
		record, err := parseRecordJSON(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", j.read, err)
		}
		return record, nil
	}
	return nil, endOf(j.lines, j.read)
}

// layoutInput reads records by a percent layout of kgo's.
type layoutInput struct {
	reader *kgo.RecordReader
	read   int64
}

func (l *layoutInput) next() (*kgo.Record, error) {
	record := &kgo.Record{Partition: anyPartition}
	err := l.reader.ReadRecordInto(record)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("record %d does not match the layout: %w", l.read+1, err)
	}
	l.read++
	return record, err
}

// unescape reads the escapes that a shell leaves alone: \t, \n, \x1f and so on.
func unescape(text string) ([]byte, error) {
	if !strings.Contains(text, `\`) {
		return []byte(text), nil
	}
	plain, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	if err != nil {
		return nil, fmt.Errorf("%q has an unknown escape", text)
	}
	return []byte(plain), nil
}

// parseHeader reads KEY=VALUE or KEY:VALUE, whichever sign comes first; without one the value is null.
func parseHeader(text string) (kgo.RecordHeader, error) {
	at := strings.IndexAny(text, "=:")
	if at < 0 {
		return kgo.RecordHeader{Key: text}, nil
	}
	if at == 0 {
		return kgo.RecordHeader{}, fmt.Errorf("header %q has no key: give KEY=VALUE", text)
	}
	return kgo.RecordHeader{Key: text[:at], Value: []byte(text[at+1:])}, nil
}
