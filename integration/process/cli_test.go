//go:build integration

package process

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/firnlog/firn/broker/admin/view"
)

// parse reads what a command prints with --format json.
func parse[T any](t testing.TB, command Command) T {
	t.Helper()
	var value T
	out := command.Output(t)
	if err := json.Unmarshal([]byte(out), &value); err != nil {
		t.Fatalf("%q prints %v: %s", command.Args, err, out)
	}
	return value
}

func tierObjects(t testing.TB, node *Node, topic string) view.TierObjects {
	t.Helper()
	return parse[view.TierObjects](t, node.CLI("tier", "ls", topic, "--format", "json"))
}

func tierStatus(t testing.TB, node *Node, topic string) view.TierPartition {
	t.Helper()
	status := parse[view.TierStatus](t, node.CLI("tier", "status", topic, "--format", "json"))
	if len(status.Partitions) != 1 {
		t.Fatalf("%d partitions of %s", len(status.Partitions), topic)
	}
	return status.Partitions[0]
}

type topicList struct {
	Topics []struct {
		Topic      string `json:"topic"`
		Status     string `json:"status"`
		Error      string `json:"error"`
		Partitions int    `json:"partitions"`
	} `json:"topics"`
}

type topicDetails struct {
	Topics []struct {
		Configs []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"configs"`
		Partitions []struct {
			StartOffset int64 `json:"start_offset"`
			EndOffset   int64 `json:"end_offset"`
		} `json:"partitions"`
	} `json:"topics"`
}

func TestTopicsOnTheCommandLine(t *testing.T) {
	node := Serve(t, Options{})
	created := parse[topicList](t, node.CLI("topic", "create", "flights", "trains", "-p", "3",
		"-c", "retention.ms=3600000", "--format", "json"))
	if len(created.Topics) != 2 || created.Topics[0].Status != "created" || created.Topics[0].Partitions != 3 {
		t.Errorf("created %+v", created)
	}
	again := node.CLI("topic", "create", "flights", "boats", "--format", "json").Run(t)
	if again.Status != 3 || !strings.Contains(again.Stderr, "TOPIC_ALREADY_EXISTS") {
		t.Errorf("one of two that exists ends with status %d and %q", again.Status, again.Stderr)
	}
	listed := parse[topicList](t, node.CLI("topic", "list", "--format", "json"))
	var names []string
	for _, topic := range listed.Topics {
		names = append(names, topic.Topic)
	}
	if !slices.Equal(names, []string{"boats", "flights", "trains"}) {
		t.Errorf("topics %v", names)
	}
	node.CLI("topic", "alter", "flights", "-c", "retention.ms=7200000", "-p", "5").Output(t)
	details := parse[topicDetails](t, node.CLI("topic", "describe", "flights", "--format", "json")).Topics[0]
	if len(details.Partitions) != 5 {
		t.Errorf("%d partitions", len(details.Partitions))
	}
	for _, config := range details.Configs {
		if config.Name == "retention.ms" && config.Value != "7200000" {
			t.Errorf("retention.ms is %s", config.Value)
		}
	}
	node.CLI("topic", "delete", "flights").Output(t)
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"topic", "delete", "flights"}, 1, "UNKNOWN_TOPIC_OR_PARTITION"},
		{[]string{"topic", "describe", "flights"}, 1, "flights"},
		{[]string{"topic", "create", "bad name"}, 1, "INVALID_TOPIC_EXCEPTION"},
		{[]string{"topic", "create", "x", "-c", "retention.mss=1"}, 1, "retention.mss"},
		{[]string{"topic", "create"}, 2, "topic create"},
		{[]string{"consume", "flights"}, 1, "flights"},
		{[]string{"consume", "trains", "-o", "soon"}, 2, "soon"},
		{[]string{"tier", "ls", "flights"}, 1, "flights"},
	} {
		result := node.CLI(c.args...).Run(t)
		if result.Status != c.status || !strings.Contains(result.Stderr, c.says) ||
			strings.Count(result.Stderr, "\n") != 1 {
			t.Errorf("%q ends with status %d and %q", c.args, result.Status, result.Stderr)
		}
	}
	typo := Command{Path: Firn(t), Args: []string{"topic", "crate", "x"}}.Run(t)
	if typo.Status != 2 || !strings.Contains(typo.Stderr, "create") {
		t.Errorf("a command that does not exist ends with status %d and %q", typo.Status, typo.Stderr)
	}
	node.Stop()
}

func TestRecordsOnTheCommandLine(t *testing.T) {
	node := Serve(t, Options{})
	node.CLI("topic", "create", "pairs").Output(t)
	var input, times strings.Builder
	for i := range 100 {
		fmt.Fprintf(&input, "k%d:v%d\n", i, i)
		fmt.Fprintf(&times, `{"partition":0,"timestamp":%d,"key":null,"value":"t%d"}`+"\n", 1_700_000_000_000+1000*i, i)
	}
	produce := node.CLI("produce", "pairs", "-K", ":", "-z", "lz4", "-H", "by=hand")
	produce.Stdin = input.String()
	produce.Output(t)
	node.CLI("topic", "create", "timed", "-c", "retention.ms=-1").Output(t)
	produce = node.CLI("produce", "timed", "-f", "json")
	produce.Stdin = times.String()
	produce.Output(t)
	for offsets, want := range map[string]string{
		"start": "v0 … v99", "97": "v97 v98 v99", "-2": "v98 v99", "5:8": "v5 v6 v7", "+98": "v98 v99",
		":2": "v0 v1", "50:+2": "v50 v51", "end": "",
	} {
		if got := values(node.CLI("consume", "pairs", "-o", offsets).Output(t)); got != want {
			t.Errorf("consume -o %s prints %q, want %q", offsets, got, want)
		}
	}
	for offsets, want := range map[string]string{
		"@1700000098000": "t98 t99", "@1700000002500:1700000005000": "t3 t4", "@2023-11-14T22:13:20Z:3s": "t0 t1 t2",
		"@1800000000000": "",
	} {
		if got := values(node.CLI("consume", "timed", "-o", offsets).Output(t)); got != want {
			t.Errorf("consume -o %s prints %q, want %q", offsets, got, want)
		}
	}
	if got := values(node.CLI("consume", "pairs", "-o", "7", "-n", "1", "-f", "%k=%v\n").Output(t)); got != "k7=v7" {
		t.Errorf("a layout prints %q", got)
	}
	// What consume prints as JSON, produce takes.
	copied := node.CLI("produce", "copy", "-f", "json")
	copied.Stdin = node.CLI("consume", "pairs", "-f", "json").Output(t)
	node.CLI("topic", "create", "copy").Output(t)
	copied.Output(t)
	original := node.CLI("consume", "pairs", "-f", "%k %v %d\n").Output(t)
	if got := node.CLI("consume", "copy", "-f", "%k %v %d\n").Output(t); got != original {
		t.Errorf("the copy differs: %q", got)
	}
	node.Stop()
	checkLogCommands(t, node)
}

// values joins the lines of an output, and leaves out the middle of many.
func values(out string) string {
	lines := strings.Fields(out)
	if len(lines) > 10 {
		lines = []string{lines[0], "…", lines[len(lines)-1]}
	}
	return strings.Join(lines, " ")
}

// checkLogCommands looks into the files that a node has left.
func checkLogCommands(t *testing.T, node *Node) {
	t.Helper()
	folder := filepath.Join(node.Dir, "log", "pairs-0")
	dump := Command{Path: Firn(t), Args: []string{"log", "dump", filepath.Join(folder, "00000000000000000000.log")}}
	if out := dump.Output(t); !strings.Contains(out, "lz4") {
		t.Errorf("the dump does not name the codec: %.500s", out)
	}
	verify := Command{Path: Firn(t), Args: []string{"log", "verify", filepath.Join(node.Dir, "log"), "--format", "json"}}
	report := parse[struct {
		Records  int64 `json:"records"`
		Problems []any `json:"problems"`
	}](t, verify)
	if report.Records != 300 || len(report.Problems) != 0 {
		t.Errorf("verified %+v", report)
	}
	damage(t, filepath.Join(folder, "00000000000000000000.log"))
	result := verify.Run(t)
	if result.Status != 1 || !strings.Contains(result.Stdout, "00000000000000000000.log") {
		t.Errorf("a damaged log ends with status %d and %s", result.Status, result.Stdout)
	}
}
