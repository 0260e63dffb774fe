//go:build integration

package clients

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	batches "github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/integration/process"
)

// TestKafkasCommandLineToolsWork runs Kafka's tools one after the other against one node. What works and what does not
// yet is a table of the protocol page.
func TestKafkasCommandLineToolsWork(t *testing.T) {
	t.Parallel()
	node := process.Serve(t, process.Options{
		Set: []string{
			"remote.log.manager.task.interval.ms=200", "group.initial.rebalance.delay.ms=0",
			"transaction.partition.verification.enable=false",
		},
	})
	writeHistory(t, node)
	beginTransaction(t, node)
	hangTransaction(t, node)
	places := strings.NewReplacer("BROKERS", node.Kafka, "FILES", toolFiles(t), "DATA", node.Dir)
	commands := slices.DeleteFunc(toolCommands(), func(c toolCommand) bool { return c.process })
	calls := make([]toolCall, len(commands))
	for i, c := range commands {
		calls[i] = c.call(places)
	}
	for i, result := range runTools(t, calls) {
		t.Run(commands[i].tool+" "+commands[i].command, func(t *testing.T) { commands[i].expect(t, result) })
	}
	expectOnPage(t, "tools", toolsTable())
}

// TestKafkasToolsThatNeedAProcessWork runs those that print their last lines when the process ends, or never end.
func TestKafkasToolsThatNeedAProcessWork(t *testing.T) {
	t.Parallel()
	node := process.Serve(t, process.Options{})
	node.CreateTopic("flights", 1)
	place := []string{"--bootstrap-server", node.Kafka, "--topic", "flights"}
	result := kafkaTool(t, "VerifiableProducer", append(place, "--max-messages", "10", "--acks", "-1")...).Run(t)
	wants := regexp.MustCompile(`(?s)^(\{"timestamp":\d+,"name":"startup_complete"\})\n` +
		`(\{[^\n]*"producer_send_success"[^\n]*\n){10}.*"tool_data","sent":10,"acked":10,.*\}\n$`)
	if result.Status != 0 || !wants.MatchString(result.Stdout) {
		t.Errorf("kafka-verifiable-producer ended with status %d:\n%s%s", result.Status, result.Stdout, result.Stderr)
	}
	verification := kafkaTool(t, "ReplicaVerificationTool", "--broker-list", node.Kafka, "--topics-include", "flights",
		"--time", "-2", "--report-interval-ms", "100")
	verification.Until(t, regexp.MustCompile(`: max lag is 0 for partition flights-0 at offset 10 among 1 partitions$`))
}

// toolFiles is a folder with the files that commands name.
func toolFiles(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"deletion.json":    `{"version": 1, "partitions": [{"topic": "flights", "partition": 0, "offset": 300}]}`,
		"topics.json":      `{"version": 1, "topics": [{"topic": "flights"}]}`,
		"same.json":        `{"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [1]}]}`,
		"other.json":       `{"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [2]}]}`,
		"admin.properties": "security.protocol=PLAINTEXT\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// writeHistory makes a topic of whose three segments the bucket has two.
func writeHistory(t *testing.T, node *process.Node) {
	t.Helper()
	node.CreateTopic("history", 1, "remote.storage.enable=true", "internal.segment.bytes=1000", "retention.ms=-1")
	random := rand.New(rand.NewPCG(7, 8))
	for i := range 3 {
		records := []record{{Timestamp: someTime + int64(i), Value: noise(random, 900)}}
		franz{node}.produceTo(t, written{"history", plain, records})
	}
	status := node.CLI("tier", "status", "history", "--format", "json")
	process.Eventually(t, "two segments are in the bucket", func(context.Context) bool {
		var answer struct {
			Partitions []struct {
				Segments int `json:"segments"`
			} `json:"partitions"`
		}
		if err := json.Unmarshal([]byte(status.Output(t)), &answer); err != nil || len(answer.Partitions) != 1 {
			t.Fatalf("%+v: %v", answer, err)
		}
		return answer.Partitions[0].Segments == 2
	})
}

// beginTransaction makes a topic with a transaction that its producer does not end.
func beginTransaction(t *testing.T, node *process.Node) {
	t.Helper()
	node.CreateTopic("open", 1)
	client := node.Client(kgo.TransactionalID("open"), kgo.TransactionTimeout(10*time.Minute))
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "open", Value: []byte("open")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// hangTransaction leaves a record of a transaction, of an hour ago, in a partition that the transaction's coordinator was
// not told of.
func hangTransaction(t *testing.T, node *process.Node) {
	t.Helper()
	node.CreateTopic("hung", 1)
	id := "hung"
	begin := kmsg.NewPtrInitProducerIDRequest()
	begin.TransactionalID, begin.TransactionTimeoutMillis = &id, 60000
	producer, err := begin.RequestWith(t.Context(), node.Client())
	if err != nil || producer.ErrorCode != 0 {
		t.Fatalf("%+v: %v", producer, err)
	}
	options := batches.PlainProducer()
	options.Transactional, options.ProducerID, options.ProducerEpoch = true, producer.ProducerID, producer.ProducerEpoch
	options.BaseSequence = 0
	batch := batches.NewBuilder(options)
	batch.Append(time.Now().Add(-time.Hour).UnixMilli(), nil, []byte("hangs"))
	request := kmsg.NewPtrProduceRequest()
	request.TransactionID, request.Acks, request.TimeoutMillis = &id, -1, 10000
	request.Topics = []kmsg.ProduceRequestTopic{{Topic: "hung", Partitions: []kmsg.ProduceRequestTopicPartition{
		{Records: batch.Build()},
	}}}
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(request.Key(), 10) // later ones make partitions join by writing
	response, err := request.RequestWith(t.Context(), node.Client(kgo.MaxVersions(versions)))
	if err != nil || response.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v: %v", response, err)
	}
}

// toolCommand is a tool and what it is told.
type toolCommand struct {
	tool    string // as Kafka's distribution calls it, without .sh
	command string // the first arguments, which the page shows
	more    string // the others. BROKERS, FILES and DATA are places
	stdin   string
	wants   string // a pattern of what it prints to stdout, and to stderr after that
	lacks   string // why it does not do what it is asked to; "" if it does
	process bool   // it has a test of its own, in a process of its own
}

// call is how Tools.java is told. The node is named first, unless the command names it or needs none.
func (c *toolCommand) call(places *strings.Replacer) toolCall {
	args := strings.Fields(places.Replace(c.command + " " + c.more))
	if c.tool != "kafka-dump-log" && !strings.Contains(c.more, "BROKERS") {
		args = append([]string{"--bootstrap-server", places.Replace("BROKERS")}, args...)
	}
	return toolCall{Tool: toolClasses[c.tool], Args: args, Stdin: c.stdin}
}

// expect checks what a command has printed. The status tells less: several tools end well whatever happens.
func (c *toolCommand) expect(t *testing.T, result toolResult) {
	t.Helper()
	text := result.Stdout + complaints(result.Stderr)
	if !regexp.MustCompile(c.wants).MatchString(text) || result.Status != 0 && c.lacks == "" {
		t.Errorf("it ended with status %d:\n%s\nwant %s", result.Status, text, c.wants)
	}
}

// toolCall and toolResult are what Tools.java reads and writes.
type toolCall struct {
	Tool  string   `json:"tool"`
	Args  []string `json:"args"`
	Stdin string   `json:"stdin"`
}

type toolResult struct {
	Status int    `json:"status"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// runTools runs tools one after the other.
func runTools(t *testing.T, calls []toolCall) []toolResult {
	t.Helper()
	var stdin strings.Builder
	encoder := json.NewEncoder(&stdin)
	for _, call := range calls {
		if err := encoder.Encode(call); err != nil {
			t.Fatal(err)
		}
	}
	command := java(t, "256m", "Tools")
	command.Stdin = stdin.String()
	results := make([]toolResult, 0, len(calls))
	for lines := json.NewDecoder(strings.NewReader(command.Output(t))); len(results) < len(calls); {
		var result toolResult
		if err := lines.Decode(&result); err != nil {
			t.Fatal(err)
		}
		results = append(results, result)
	}
	return results
}

// toolsTable is the table as the page shows it.
func toolsTable() string {
	var tools []string
	works, lacks := map[string][]string{}, map[string][]string{}
	for _, c := range toolCommands() {
		if !slices.Contains(tools, c.tool) {
			tools = append(tools, c.tool)
		}
		shown := "`" + cmp.Or(c.command, "--bootstrap-server") + "`"
		if c.lacks == "" {
			works[c.tool] = append(works[c.tool], shown)
		} else {
			lacks[c.tool] = append(lacks[c.tool], shown+" "+c.lacks)
		}
	}
	var rows strings.Builder
	rows.WriteString("| tool | works | answers an error |\n|---|---|---|\n")
	for _, tool := range tools {
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", tool, strings.Join(works[tool], ", "), strings.Join(lacks[tool], ", "))
	}
	return rows.String()
}
