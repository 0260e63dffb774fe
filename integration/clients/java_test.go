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

// java is the command line of a class in Kafka's jars or our own programs.
func java(t *testing.T, heap, class string, args ...string) process.Command {
	t.Helper()
	path, err := exec.LookPath("java")
	if err != nil {
		process.Missing(t, "java", err)
	}
	kafka := process.Program(t, "FIRN_KAFKA_LIB", filepath.Join("..", "..", ".cache", "kafka"))
	if found, _ := filepath.Glob(filepath.Join(kafka, "kafka-tools-*.jar")); len(found) == 0 {
		process.Missing(t, "FIRN_KAFKA_LIB (a folder with Kafka's jars)", os.ErrNotExist)
	}
	ours := process.Program(t, "FIRN_JAVA_CLASSES", filepath.Join("..", "..", ".cache", "java"))
	flags := []string{ // that make a short life shorter
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx" + heap,
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", ours + string(filepath.ListSeparator) + filepath.Join(kafka, "*"), class,
	}
	return process.Command{Path: path, Args: append(flags, args...)}
}

// openJava prepares Exchange.java with a library.
func openJava(library string) func(*testing.T, *process.Node) peer {
	return func(t *testing.T, node *process.Node) peer {
		t.Helper()
		command := java(t, "512m", "Exchange", library)
		return program{path: command.Path, args: command.Args, brokers: node.Kafka}
	}
}

// kafkaTool is the command line of one of Kafka's tools.
func kafkaTool(t *testing.T, class string, args ...string) process.Command {
	t.Helper()
	return java(t, "256m", "org.apache.kafka.tools."+class, args...)
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
