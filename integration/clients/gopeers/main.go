package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// patience ends what hangs; nothing here takes as long.
	patience = 2 * time.Minute
	// maxMessageBytes leaves room for records of 10 MB.
	maxMessageBytes = 12_000_000
	// fetchWait is how long a broker may wait for records; there are some, as reading ends at the end.
	fetchWait = 50 * time.Millisecond
	// readers is from how many starts is read at a time.
	readers = 8
	// linger gathers records into batches of more than one.
	linger = 10 * time.Millisecond
)

// record is a record as all clients can tell it. Null differs from empty.
type record struct {
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"` // in ms
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
}

type header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// library is a client of Kafka.
type library interface {
	// produce writes to partition 0 of a topic and returns when all is acknowledged.
	produce(ctx context.Context, topic, codec string, records []record) error
	// consume returns the records of partition 0 from a start on, up to the end.
	consume(ctx context.Context, from start) ([]record, error)
	// member joins a group, and tells what it reads until the context ends; then it leaves.
	member(ctx context.Context, j join, hear func(partition int32, offset int64, value []byte)) error
	// transact does transactions.
	transact(t transactions) error
}

// start is where reading begins: at an offset, or at the first record that is not older than a time in ms.
type start struct {
	topic  string
	isTime bool
	at     int64
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gopeers:", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if len(args) != 3 {
		return errors.New("usage: gopeers segmentio|sarama produce|consume|members|transact BROKERS")
	}
	var lib library
	brokers := strings.Split(args[2], ",")
	switch args[0] {
	case "segmentio":
		lib = kafkaGo{brokers}
	case "sarama":
		lib = saramaClient{brokers}
	default:
		return fmt.Errorf("%q is neither segmentio nor sarama", args[0])
	}
	switch args[1] {
	case "produce":
		return produce(ctx, lib, stdin)
	case "consume":
		return consume(ctx, lib, stdin, stdout)
	case "members":
		return members(lib, stdin, stdout)
	case "transact":
		var t transactions
		if err := json.NewDecoder(stdin).Decode(&t); err != nil {
			return err
		}
		return lib.transact(t)
	default:
		return fmt.Errorf("%q is none of produce, consume, members and transact", args[1])
	}
}

// produce writes the records of each topic before it reads the next one's.
func produce(ctx context.Context, lib library, stdin io.Reader) error {
	var topic, codec string
	var records []record
	flush := func() error {
		if len(records) == 0 {
			return nil
		}
		if err := lib.produce(ctx, topic, codec, records); err != nil {
			return fmt.Errorf("produce to %s with %s: %w", topic, codec, err)
		}
		records = nil
		return nil
	}
	for lines := json.NewDecoder(stdin); ; {
		var line struct {
			Topic string `json:"topic"`
			Codec string `json:"codec"`
			record
		}
		switch err := lines.Decode(&line); {
		case err == io.EOF:
			return flush()
		case err != nil:
			return err
		case line.Topic == "":
			records = append(records, line.record)
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		topic, codec = line.Topic, line.Codec
	}
}

// consume reads from several starts at a time, as both libraries spend most of theirs waiting, and prints in order.
func consume(ctx context.Context, lib library, stdin io.Reader, stdout io.Writer) error {
	starts, err := parseStarts(stdin)
	if err != nil {
		return err
	}
	type reading struct {
		records []record
		err     error
	}
	readings := make(chan chan reading, readers-1) // and one that is printed
	go func() {
		defer close(readings)
		for _, from := range starts {
			result := make(chan reading, 1)
			select {
			case readings <- result:
			case <-ctx.Done():
				return
			}
			go func() {
				records, err := lib.consume(ctx, from)
				result <- reading{records, err}
			}()
		}
	}()
	out := bufio.NewWriter(stdout)
	encoder := json.NewEncoder(out)
	for result := range readings {
		r := <-result
		if r.err != nil {
			return r.err
		}
		for _, record := range r.records {
			if err := encoder.Encode(record); err != nil {
				return err
			}
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

func parseStarts(stdin io.Reader) ([]start, error) {
	var starts []start
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		topic, text, _ := strings.Cut(lines.Text(), " ")
		kind, number, _ := strings.Cut(text, ":")
		at, err := strconv.ParseInt(number, 10, 64)
		if err != nil || kind != "offset" && kind != "time" {
			return nil, fmt.Errorf("%q is neither TOPIC offset:N nor TOPIC time:MS", lines.Text())
		}
		starts = append(starts, start{topic: topic, isTime: kind == "time", at: at})
	}
	return starts, lines.Err()
}
