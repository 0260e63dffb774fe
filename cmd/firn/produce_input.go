package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// maxInputLine bounds one line of input, and so the memory that input without line ends may take: larger than any
	// record that a cluster with usual settings accepts.
	maxInputLine = 128 << 20
	// anyPartition marks a record whose partition is chosen by --partitioner.
	anyPartition = -1
	// standardInput is what a file argument calls it.
	standardInput = "-"
)

// recordInput yields the records of an input, in order; io.EOF after the last.
type recordInput interface {
	next() (*kgo.Record, error)
}

// inputFiles reads one input after the other, each as if it were the only one.
type inputFiles struct {
	names   []string
	stdin   io.Reader
	open    func(io.Reader) (recordInput, error)
	current recordInput // nil: the next one is to be opened
	file    io.Closer   // nil: standard input
}

func (f *inputFiles) next() (*kgo.Record, error) {
	for len(f.names) > 0 {
		if f.current == nil {
			if err := f.openNext(); err != nil {
				return nil, err
			}
		}
		record, err := f.current.next()
		if err == nil {
			return record, nil
		}
		name, isFile := f.names[0], f.file != nil
		f.close()
		if errors.Is(err, io.EOF) {
			continue
		}
		f.names = nil
		if isFile {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return nil, err
	}
	return nil, io.EOF
}

func (f *inputFiles) openNext() error {
	in := f.stdin
	if name := f.names[0]; name != standardInput {
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("--input: %w", err)
		}
		in, f.file = file, file
	}
	var err error
	f.current, err = f.open(in)
	return err
}

func (f *inputFiles) close() {
	if f.file != nil {
		f.file.Close()
	}
	f.current, f.file, f.names = nil, nil, f.names[1:]
}

// textForm is how records are written in --format text.
type textForm struct {
	separator []byte // between key and value; nil: there are no keys
	delimiter []byte // after a record
}

// newRecordInput reads records in a format: text lines, JSON lines, the whole input, or a percent layout.
func newRecordInput(in io.Reader, format string, form textForm) (recordInput, error) {
	switch format {
	case formatText:
		return &lineInput{lines: newLines(in, form.delimiter), separator: form.separator}, nil
	case formatJSON, formatJSONLines:
		return &jsonInput{lines: newLines(in, []byte("\n"))}, nil
	case formatRaw:
		return &rawInput{in: in}, nil
	}
	reader, err := kgo.NewRecordReader(in, format)
	if err != nil {
		return nil, fmt.Errorf("layout %q: %w", format, err)
	}
	return &layoutInput{reader: reader, verbs: strings.ReplaceAll(format, "%%", "")}, nil
}

// newLines splits at delimiters only: a carriage return belongs to the record.
func newLines(in io.Reader, delimiter []byte) *bufio.Scanner {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxInputLine)
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if end := bytes.Index(data, delimiter); end >= 0 {
			return end + len(delimiter), data[:end], nil
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

// rawInput takes all there is as one value, which may be empty.
type rawInput struct {
	in   io.Reader
	done bool
}

func (r *rawInput) next() (*kgo.Record, error) {
	if r.done {
		return nil, io.EOF
	}
	r.done = true
	value, err := io.ReadAll(io.LimitReader(r.in, maxInputLine+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read: %w", err)
	case len(value) > maxInputLine:
		return nil, fmt.Errorf("it is longer than %s", byteSize(maxInputLine))
	}
	return &kgo.Record{Partition: anyPartition, Value: value}, nil
}

// layoutInput reads records by a percent layout of kgo's.
type layoutInput struct {
	reader *kgo.RecordReader
	verbs  string // the layout without its percent signs
	read   int64
}

func (l *layoutInput) next() (*kgo.Record, error) {
	// kgo makes null of what is empty. What the layout has no verb for stays as it is, so a mark tells them apart.
	unread := []byte{0}
	record := &kgo.Record{Partition: anyPartition, Key: unread, Value: unread}
	err := l.reader.ReadRecordInto(record)
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("record %d does not match the layout: %w", l.read+1, err)
	}
	l.read++
	verbsOfHeaders := strings.Count(l.verbs, "%v")
	for _, field := range []*[]byte{&record.Key, &record.Value} {
		switch {
		case len(*field) == 1 && &(*field)[0] == &unread[0]:
			*field = nil
		case *field == nil:
			*field = []byte{}
		}
	}
	if record.Value != nil {
		verbsOfHeaders--
	}
	for i := range record.Headers {
		if header := &record.Headers[i]; header.Value == nil && verbsOfHeaders > 0 {
			header.Value = []byte{}
		}
	}
	return record, nil
}

// unescape reads the escapes that a shell leaves alone: \t, \n, \x1f and so on. Nothing stays nothing: nil.
func unescape(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
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
