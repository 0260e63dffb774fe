//go:build integration

package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/firnlog/firn/integration/process"
)

// program is a peer in another language. It is run once for all that it writes and once for all that it reads:
//
//	PROGRAM produce BROKERS   < a line {"topic":"t","codec":"gzip"} begins a topic, its records are the lines after it.
//	                          The status is 0 only when all of them were acknowledged.
//	PROGRAM consume BROKERS   < a line "TOPIC offset:N" or "TOPIC time:MS" for each read of partition 0, to its end.
//	                          > the records of each read, an empty line after each.
//
// A record is a line of JSON: see record. It lets a message have 12 MB.
type program struct {
	path    string
	args    []string // before produce and consume
	env     []string
	brokers string
}

func (p program) produce(t *testing.T, topics []written) {
	t.Helper()
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encode := func(value any) {
		if err := encoder.Encode(value); err != nil {
			t.Fatal(err)
		}
	}
	for _, topic := range topics {
		encode(map[string]string{"topic": topic.name, "codec": string(topic.codec)})
		for _, r := range topic.records {
			encode(r)
		}
	}
	p.command("produce", lines.String()).Output(t)
}

func (p program) consume(t *testing.T, starts []start) [][]record {
	t.Helper()
	var lines strings.Builder
	for _, from := range starts {
		fmt.Fprintf(&lines, "%s %s:%d\n", from.topic, from.kind, from.at)
	}
	result := p.command("consume", lines.String()).Run(t)
	all, read := [][]record{}, []record(nil)
	for line := range strings.Lines(result.Stdout) {
		if line == "\n" {
			all, read = append(all, read), nil
			continue
		}
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%.100q: %v", line, err)
		}
		read = append(read, r)
	}
	if result.Status != 0 {
		t.Fatalf("%s ended with status %d after %d of %d reads:\n%s",
			p.path, result.Status, len(all), len(starts), result.Stderr)
	}
	return all
}

func (p program) command(verb, stdin string) process.Command {
	return process.Command{
		Path: p.path, Args: append(p.args[:len(p.args):len(p.args)], verb, p.brokers), Env: p.env, Stdin: stdin,
	}
}
