//go:build integration

package clients

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/firnlog/firn/integration/process"
)

// TestKafkasCommandLineToolsWork runs Kafka's tools one after the other against one node.
func TestKafkasCommandLineToolsWork(t *testing.T) {
	node := process.Serve(t, process.Options{})
	deletion := filepath.Join(t.TempDir(), "deletion.json")
	text := `{"version": 1, "partitions": [{"topic": "flights", "partition": 0, "offset": 300}]}`
	if err := os.WriteFile(deletion, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flights := []string{"--topic", "flights"}
	for _, c := range []struct {
		name, class string
		args        []string
		wants       string // a pattern of what is printed
	}{
		{
			"a topic is created", "TopicCommand",
			append(flights, "--create", "--partitions", "1", "--config", "retention.ms=-1"), `^Created topic flights\.\n$`,
		},
		{
			"a thousand records are produced with zstd", "ProducerPerformance", append(flights, "--num-records", "1000",
				"--record-size", "100", "--throughput", "-1", "--command-property", "compression.type=zstd"),
			`^1000 records sent, `,
		},
		{
			"a record with a key is produced with lz4", "ConsoleProducer",
			append(flights, "--compression-codec", "lz4", "--reader-property", "parse.key=true"), ``,
		},
		{
			"what was produced is consumed", "consumer.ConsoleConsumer",
			append(flights, "--partition", "0", "--offset", "999", "--max-messages", "2",
				"--formatter-property", "print.offset=true", "--formatter-property", "print.key=true"),
			`^Offset:999\tnull\t[A-Z]{100}\nOffset:1000\tkey\tvalue\n$`,
		},
		{"topics are listed", "TopicCommand", []string{"--list"}, `^flights\n$`},
		{"a topic gets partitions", "TopicCommand", append(flights, "--alter", "--partitions", "2"), `^$`},
		{
			"a topic gets a setting", "ConfigCommand", []string{
				"--alter", "--entity-type", "topics", "--entity-name", "flights", "--add-config", "segment.bytes=1048576",
			}, `^Completed updating config for topic flights\.\n$`,
		},
		{
			"the settings of a topic are described", "ConfigCommand",
			[]string{"--describe", "--entity-type", "topics", "--entity-name", "flights"},
			`^Dynamic configs for topic flights are:\n  retention.ms=-1 sensitive=false synonyms=.*\n  segment.bytes=1048576 .*\n$`,
		},
		{
			"a topic is described", "TopicCommand", append(flights, "--describe"),
			`(?s)^Topic: flights\s+TopicId: \S{22}\s+PartitionCount: 2\s+ReplicationFactor: 1\s+` +
				`Configs: retention.ms=-1,segment.bytes=1048576\n.*` +
				`\tTopic: flights\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\t.*\n$`,
		},
		{
			"records are deleted", "DeleteRecordsCommand", []string{"--offset-json-file", deletion},
			`partition: flights-0\tlow_watermark: 300\n$`,
		},
		{
			"the first offsets are told", "GetOffsetShell", append(flights, "--time", "earliest"),
			`^flights:0:300\nflights:1:0\n$`,
		},
		{"the ends are told", "GetOffsetShell", flights, `^flights:0:1001\nflights:1:0\n$`},
		{"log directories are described", "LogDirsCommand", []string{"--describe"}, `"partition":"flights-0","size":[1-9]`},
		{"APIs are listed", "BrokerApiVersionsCommand", nil, `\(id: 1 rack: null isFenced: false\) -> \(\n\tProduce\(0\): 0 to 13`},
		{
			"the quorum is described", "MetadataQuorumCommand", []string{"describe", "--status"},
			`(?s)LeaderId: +1\n.*CurrentVoters: +\[\{"id": 1, .*CurrentObservers: +\[\]\n$`,
		},
		{
			"a leader that leads stays", "LeaderElectionCommand",
			append(flights, "--election-type", "preferred", "--partition", "0"),
			`^Valid replica already elected for partitions flights-0\n$`,
		},
		{"a topic is deleted", "TopicCommand", append(flights, "--delete"), `^$`},
		{"a topic that was deleted is not listed", "TopicCommand", []string{"--list"}, `^\n?$`},
	} {
		ok := t.Run(c.name, func(t *testing.T) {
			tool := kafkaTool(t, c.class, append([]string{"--bootstrap-server", node.Kafka}, c.args...)...)
			tool.Stdin = "key\tvalue\n"
			result := tool.Run(t)
			if result.Status != 0 || !regexp.MustCompile(c.wants).MatchString(result.Stdout) {
				t.Errorf("%s ended with status %d:\n%s%s\nwant %s", c.class, result.Status, result.Stdout, result.Stderr, c.wants)
			}
		})
		if !ok {
			break // what follows needs it
		}
	}
}
