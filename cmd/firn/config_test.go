package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// emptyEnvironment takes away what the machine that runs the tests says about a node.
func emptyEnvironment(t *testing.T) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "FIRN_") || strings.HasPrefix(name, "KAFKA_") {
			t.Setenv(name, "") // puts it back afterwards
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func runConfig(args ...string) (output string, err error) {
	root := group(&cobra.Command{Use: "firn", SilenceErrors: true, SilenceUsage: true}, configCommand())
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(append([]string{"config"}, args...))
	err = root.Execute()
	return out.String(), err
}

func TestConfigShowsEachValueWithItsOriginAndEffect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte("# one\nnum.io.threads=8\nlog.retention.hours=24\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	emptyEnvironment(t)
	t.Setenv("FIRN_NUM_PARTITIONS", "4")
	out, err := runConfig("--config", file, "--set", "fetch.max.bytes=2048", "--data-dir", "/data")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{
		{"SETTING", "VALUE", "ORIGIN", "EFFECT"},
		{"num.io.threads", "8", file, "line", "2", "no", "effect"},
		{"log.retention.hours", "24", file, "line", "3", "acts"},
		{"num.partitions", "4", "FIRN_NUM_PARTITIONS", "acts"},
		{"fetch.max.bytes", "2048", "--set", "acts"},
		{"firn.data.dir", "/data", "--data-dir", "acts"},
		{"firn.object.store", "file:///data/bucket", "default", "acts"},
		{"log.dirs", "-", "default", "acts"},
		{"note:", "accepted,", "without", "effect", "here:", "num.io.threads"},
	} {
		if !hasRow(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(out, "leader.imbalance.check.interval.seconds") {
		t.Error("what nobody has set and does not act is shown without --all")
	}
}

// hasRow tells whether a line has exactly these words.
func hasRow(out string, words []string) bool {
	for line := range strings.Lines(out) {
		if strings.Join(strings.Fields(line), " ") == strings.Join(words, " ") {
			return true
		}
	}
	return false
}

func TestConfigAllAsJSON(t *testing.T) {
	emptyEnvironment(t)
	out, err := runConfig("--all", "--format", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got configResult
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	byName := map[string]configSetting{}
	for _, setting := range got.Settings {
		byName[setting.Name] = setting
	}
	listeners := byName["listeners"]
	if len(byName) < 390 || byName["leader.imbalance.check.interval.seconds"].Effect != "not acting yet" ||
		*listeners.Value != "PLAINTEXT://127.0.0.1:9092" || *listeners.KafkaDefault != "PLAINTEXT://:9092" ||
		listeners.Reason == "" || listeners.Origin != "default" {
		t.Errorf("%d settings, listeners %+v", len(byName), listeners)
	}
}

func TestConfigRefusesWhatAStartWouldRefuse(t *testing.T) {
	emptyEnvironment(t)
	for _, test := range []struct{ args, want string }{
		{"--set num.partition=3", "did you mean num.partitions?"},
		{"--set ssl.keystore.location=/k", "is refused"},
		{"--config /does/not/exist", "/does/not/exist"},
		{"extra", "firn config"},
	} {
		out, err := runConfig(strings.Fields(test.args)...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v and %q", test.args, err, out)
		}
	}
}
