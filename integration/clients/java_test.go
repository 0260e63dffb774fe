//go:build integration

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firnlog/firn/integration/process"
)

// kafkaTool is the command line of one of Kafka's tools.
func kafkaTool(t *testing.T, class string, args ...string) process.Command {
	t.Helper()
	java, err := exec.LookPath("java")
	if err != nil {
		process.Missing(t, "java", err)
	}
	folder, err := filepath.Abs(os.Getenv("FIRN_KAFKA_LIB"))
	if err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(folder, "kafka-tools-*.jar")); len(found) == 0 {
		process.Missing(t, "FIRN_KAFKA_LIB (a folder with Kafka's jars)", os.ErrNotExist)
	}
	flags := []string{ // that make a short life shorter
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m", "-cp", filepath.Join(folder, "*"),
		"org.apache.kafka.tools." + class,
	}
	return process.Command{Path: java, Args: append(flags, args...)}
}

// complaints are the lines of a tool's stderr, without those of its logging library, which may have no target.
func complaints(stderr string) string {
	var lines strings.Builder
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "SLF4J: ") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}
