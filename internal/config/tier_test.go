package config

import (
	"os"
	"strings"
	"testing"
)

// TestKafkaDecidesWhatTieredTopicsMaySay holds CheckTopicChange against what Kafka's own check says. Whether a tiered
// topic may be compacted is firn's to decide.
func TestKafkaDecidesWhatTieredTopicsMaySay(t *testing.T) {
	data, err := os.ReadFile("testdata/kafka-4.4-tier.tsv")
	if err != nil {
		t.Fatal(err)
	}
	settings := func(text string) map[string]string {
		parsed := map[string]string{}
		for setting := range strings.SplitSeq(text, ";") {
			if name, value, found := strings.Cut(setting, "="); found {
				parsed[name] = value
			}
		}
		return parsed
	}
	broker := func(name string) (string, bool) { return "true", name == "remote.log.storage.system.enable" }
	rows, refused := 0, 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 {
			t.Fatalf("line %q has %d fields, not 3", line, len(fields))
		}
		after := settings(fields[1])
		if after["remote.storage.enable"] == "true" && strings.Contains(after["cleanup.policy"], "compact") {
			continue
		}
		rows++
		err := CheckTopicChange(settings(fields[0]), after, broker)
		if (err == nil) != (fields[2] == "ok") {
			t.Errorf("from %q to %q: %v, in Kafka %s", fields[0], fields[1], err, fields[2])
		}
		if err != nil {
			refused++
		}
	}
	if rows < 500 || refused < 100 {
		t.Errorf("%d rows, %d refused", rows, refused)
	}
}
