//go:build integration

package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/integration/process"
)

// aborted is what a client writes in the transactions that it aborts, and open in the one that nobody ends.
const aborted, open = "aborted", "open"

// transactor is a client with transactions.
type transactor interface {
	// transact does a transaction for each value, after one that writes something else and is aborted.
	transact(t *testing.T, job transactions)
}

// transactions are what a client does: each writes a value to a partition, and commits for a group the offset behind
// the record of partition 0 of a source, the first one first.
type transactions struct {
	ID        string   `json:"id"`
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Source    string   `json:"source"`
	Group     string   `json:"group"`
	Values    []string `json:"values"`
}

// transact runs a program in another language:
//
//	PROGRAM transact BROKERS   < a line of JSON: see transactions
func (p program) transact(t *testing.T, job transactions) {
	t.Helper()
	line, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	p.command("transact", string(bytes.TrimSpace(line))+"\n").Output(t)
}

// transact reads the source as a member of the group, whose values are those that are to be written.
func (f franz) transact(t *testing.T, job transactions) {
	t.Helper()
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(f.node.Kafka), kgo.TransactionalID(job.ID), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(job.Group), kgo.ConsumeTopics(job.Source), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	write := func(value string, end kgo.TransactionEndTry) {
		t.Helper()
		fetches := session.PollRecords(ctx, 1)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		if err := session.Begin(); err != nil {
			t.Fatal(err)
		}
		record := &kgo.Record{Topic: job.Topic, Partition: job.Partition, Value: fetches.Records()[0].Value}
		if end == kgo.TryAbort {
			record.Value = []byte(value)
		}
		if err := session.ProduceSync(ctx, record).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if committed, err := session.End(ctx, end); err != nil || committed != bool(end) {
			t.Fatalf("the transaction was committed: %t, want %t: %v", committed, end, err)
		}
	}
	for _, value := range job.Values {
		write(aborted, kgo.TryAbort)
		write(value, kgo.TryCommit)
	}
}

// expectTransactions has every client that knows transactions write in some to a partition of its own, and every client
// read all of them as a member of a group: what was committed, and nothing else.
func expectTransactions(t *testing.T, node *process.Node, all []client, missing []bool, seen *observed) {
	const topic, source = "transacted", "source"
	values := []string{"0", "1", "2"}
	node.CreateTopic(topic, int32(len(all)+1))
	node.CreateTopic(source, 1)
	produce := func(client *kgo.Client, r *kgo.Record) {
		t.Helper()
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	manual := kgo.RecordPartitioner(kgo.ManualPartitioner())
	for _, value := range values {
		produce(node.Client(manual), &kgo.Record{Topic: source, Value: []byte(value)})
	}
	admin := kadm.NewClient(node.Client())
	var want []heard
	t.Run("write", func(t *testing.T) {
		runEach(t, all, func(t *testing.T, i int) {
			c := &all[i]
			if !c.can(writes, transaction) || missing[i] {
				return
			}
			group := strings.ReplaceAll(c.name, " ", "-") + "-transactions"
			job := transactions{ID: group, Topic: topic, Partition: int32(i), Source: source, Group: group, Values: values}
			c.open(t, node).(transactor).transact(t, job)
			process.Eventually(t, "the offset behind the last record is committed", func(ctx context.Context) bool {
				committed, err := admin.FetchOffsets(ctx, group) // the transaction has ended, its markers come
				at, ok := committed.Lookup(source, 0)
				return err == nil && ok && at.At == int64(len(values))
			})
			if !t.Failed() {
				seen.add(c, writes, transaction)
			}
		})
	})
	for i := range all {
		if all[i].can(writes, transaction) && !missing[i] {
			for _, value := range values {
				want = append(want, heard{Partition: int32(i), Value: value})
			}
		}
	}
	hanging := node.Client(kgo.TransactionalID("hanging"), manual)
	if err := hanging.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(hanging, &kgo.Record{Topic: topic, Partition: int32(len(all)), Value: []byte(open)})
	t.Run("read", func(t *testing.T) {
		runEach(t, all, func(t *testing.T, i int) {
			c := &all[i]
			if !c.can(reads, committedOnly) || missing[i] {
				return
			}
			expectCommittedOnly(t, node, c, topic, want)
			if !t.Failed() {
				seen.add(c, reads, committedOnly)
			}
		})
	})
	if err := hanging.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Error(err)
	}
}

// expectCommittedOnly has a client read a topic as a member of a group.
func expectCommittedOnly(t *testing.T, node *process.Node, c *client, topic string, want []heard) {
	t.Helper()
	s := &sharing{t: t, node: node, p: classic, topic: topic, records: make(chan heard, mostHeard),
		crews: map[string]crew{}, members: map[string]crew{}}
	member := strings.ReplaceAll(c.name, " ", "-") + "-committed"
	s.join(c, member, member)
	var got []heard
	for range want {
		h := s.hear()
		got = append(got, heard{Partition: h.Partition, Value: h.Value})
	}
	s.leave(member)
	slices.SortStableFunc(got, func(a, b heard) int { return int(a.Partition - b.Partition) })
	if !slices.Equal(got, want) {
		t.Errorf("it has read %s, want %s", spell(got), spell(want))
	}
}

func spell(all []heard) string {
	var text strings.Builder
	for _, h := range all {
		fmt.Fprintf(&text, " %s:%s", strconv.Itoa(int(h.Partition)), h.Value)
	}
	return text.String()
}
