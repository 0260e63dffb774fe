package txn

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/firnlog/firn/internal/kafka"
)

// TestMachine plays events to one transactional id and shows what it decides. Each line of a scenario is an event:
//
//	state   id=1 epoch=3 …    put the id into a state that takes long to reach
//	init    timeout=MS [owner=ID/EPOCH] [unused=ID]
//	add     producer=ID/EPOCH [version=2] t-0 t-1 …
//	verify  producer=ID/EPOCH t-0
//	end     commit|abort producer=ID/EPOCH [version=2] [unused=ID]
//	fence   [unused=ID]
//	markers                   every partition has its marker
//	restart                   what is read back from the record
//
// The clock shows the number of the event.
func TestMachine(t *testing.T) {
	datadriven.Walk(t, "testdata/machine", func(t *testing.T, file string) {
		m := &machine{t: unknown()}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				m.now++
				line = strings.TrimSpace(line)
				out.WriteString(line + "\n    " + m.play(t, line) + "\n")
			}
			return out.String()
		})
	})
}

type machine struct {
	t   Transaction
	now int64
}

// arguments are the words of a line: those with a value, and the others.
func arguments(line string) (event string, values map[string]string, words []string) {
	fields := strings.Fields(line)
	values = map[string]string{}
	for _, field := range fields[1:] {
		if key, value, ok := strings.Cut(field, "="); ok {
			values[key] = value
		} else {
			words = append(words, field)
		}
	}
	return fields[0], values, words
}

func (m *machine) play(t *testing.T, line string) string {
	event, values, words := arguments(line)
	number := func(key string, otherwise int64) int64 {
		text, ok := values[key]
		if !ok {
			return otherwise
		}
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return value
	}
	producer := func(key string) Producer {
		p := NoProducer
		if text, ok := values[key]; ok {
			if _, err := fmt.Sscanf(text, "%d/%d", &p.ID, &p.Epoch); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		return p
	}
	version := int16(number("version", int64(versionEpochBump)))
	switch event {
	case "state":
		m.t.Producer = Producer{ID: number("id", m.t.ID), Epoch: int16(number("epoch", int64(m.t.Epoch)))}
		return m.t.describe()
	case "init":
		return m.decide(m.t.Initialize(Initialize{
			TimeoutMs: int32(number("timeout", 1000)), Owner: producer("owner"), UnusedID: number("unused", -1), NowMs: m.now,
		}))
	case "add":
		return m.decide(m.t.Add(Add{
			Producer: producer("producer"), Partitions: partitions(t, words), Version: version, NowMs: m.now,
		}))
	case "verify":
		return m.decide(Decision{Err: m.t.Verify(producer("producer"), partitions(t, words)[0]), Answer: NoProducer})
	case "end":
		return m.decide(m.t.End(End{
			Producer: producer("producer"), Commit: words[0] == "commit", Version: version,
			UnusedID: number("unused", -1), NowMs: m.now,
		}))
	case "fence":
		return m.decide(m.t.Fence(number("unused", -1), m.now))
	case "markers":
		return m.decide(Decision{Next: m.t.completed(m.now), Write: true, Answer: NoProducer})
	case "restart":
		read, err := decodeValue(encodeValue(m.t))
		if err != nil {
			t.Fatal(err)
		}
		m.t = read
		return m.t.describe()
	}
	t.Fatalf("unknown event: %s", line)
	return ""
}

func partitions(t *testing.T, words []string) []kafka.TopicPartition {
	var all []kafka.TopicPartition
	for _, word := range words {
		topic, number, _ := strings.Cut(word, "-")
		partition, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		all = append(all, kafka.TopicPartition{Topic: topic, Partition: int32(partition)})
	}
	return all
}

// decide takes the decision over and shows it: what the client gets, and what is written.
func (m *machine) decide(d Decision) string {
	answer := "ok"
	if d.Err != nil {
		answer = kafka.CodeOf(d.Err).Name()
	}
	if d.Answer != NoProducer {
		answer += fmt.Sprintf(", goes on as %d/%d", d.Answer.ID, d.Answer.Epoch)
	}
	if !d.Write {
		return answer
	}
	m.t = d.Next
	return answer + "; writes " + m.t.describe()
}

func (t Transaction) describe() string {
	text := fmt.Sprintf("%s %d/%d", t.State, t.ID, t.Epoch)
	if t.LastEpoch != -1 {
		text += fmt.Sprintf(" last=%d", t.LastEpoch)
	}
	text += fmt.Sprintf(" previous=%d", t.PreviousID)
	if t.NextID != -1 {
		text += fmt.Sprintf(" next=%d", t.NextID)
	}
	if t.StartedMs != -1 {
		text += fmt.Sprintf(" started=%d", t.StartedMs)
	}
	text += fmt.Sprintf(" updated=%d", t.UpdatedMs)
	if t.Version != 0 {
		text += fmt.Sprintf(" version=%d", t.Version)
	}
	for _, tp := range t.Partitions {
		text += " " + tp.String()
	}
	return text
}
