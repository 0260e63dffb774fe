//go:build integration

package differential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn"
)

const (
	// kafkaStart bounds how long Kafka may take until it serves, on a machine that does other things too.
	kafkaStart = 2 * time.Minute
	// kafkaStop bounds a clean stop; after it the process is killed. Nobody reads its files again.
	kafkaStop = 5 * time.Second
	// kafkaPause is between two questions whether Kafka serves: nothing tells it, as its jars bring no logging.
	kafkaPause = 100 * time.Millisecond
	// kafkaClusterID is 16 zero bytes but for the last, as Kafka writes it.
	kafkaClusterID = "AAAAAAAAAAAAAAAAAAAAAQ"
)

// kafkaProperties are what a node of Kafka cannot do without. What is set here appears in the answers of
// DescribeConfigs, and in the table of differences.
const kafkaProperties = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
log.dirs=%[3]s
`

// startKafka runs one node of Apache Kafka until the test ends and returns where it serves.
func startKafka(t *testing.T) *peer {
	t.Helper()
	folder := kafkaFolder(t)
	dir := t.TempDir()
	port, controllerPort := freePort(t), freePort(t)
	properties := filepath.Join(dir, "server.properties")
	write(t, properties, fmt.Sprintf(kafkaProperties, port, controllerPort, filepath.Join(dir, "logs")))
	java := func(ctx context.Context, arguments ...string) *exec.Cmd {
		flags := []string{
			"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx768m",
			"-cp", filepath.Join(folder, "*"),
		}
		return exec.CommandContext(ctx, "java", append(flags, arguments...)...)
	}
	format := java(t.Context(), "kafka.tools.StorageTool", "format", "-t", kafkaClusterID, "-c", properties)
	if output, err := format.CombinedOutput(); err != nil {
		t.Fatalf("format Kafka's directory: %v\n%s", err, output)
	}
	p := &peer{name: "kafka", address: fmt.Sprintf("127.0.0.1:%d", port)}
	runKafka(t, java(context.Background(), "kafka.Kafka", properties), p)
	return p
}

func kafkaFolder(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("FIRN_KAFKA_LIB")
	found, _ := filepath.Glob(filepath.Join(folder, "kafka-server-4.4.*.jar"))
	_, err := exec.LookPath("java")
	switch {
	case folder != "" && len(found) > 0 && err == nil:
		return folder
	case os.Getenv("FIRN_CI") != "":
		t.Fatalf("Apache Kafka 4.4 is missing: FIRN_KAFKA_LIB=%q must hold its jars (`make kafka-lib`), and java must run: %v",
			folder, err)
	default:
		t.Skip("no Apache Kafka 4.4 to compare with: FIRN_KAFKA_LIB must be the folder of its jars (`make kafka-lib`)")
	}
	return ""
}

// runKafka starts the process, waits until it serves, and stops it when the test ends.
func runKafka(t *testing.T, cmd *exec.Cmd, p *peer) {
	t.Helper()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stopped := false
	t.Cleanup(func() {
		p.close()
		if stopped {
			return
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(kafkaStop):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	for deadline := time.After(kafkaStart); !serves(p); {
		select {
		case err := <-ended:
			stopped = true
			t.Fatalf("Kafka ended early: %v\n%s", err, output.String())
		case <-deadline:
			t.Fatal("Kafka does not serve after", kafkaStart)
		case <-time.After(kafkaPause):
		}
	}
}

// serves tells whether a broker has registered itself.
func serves(p *peer) bool {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(9)
	req.Topics = []kmsg.MetadataRequestTopic{}
	answer, err := p.ask(req)
	if err != nil || answer.ended != "" {
		return false
	}
	return len(answer.response.(*kmsg.MetadataResponse).Brokers) == 1
}

// startFirn runs a node of firn in this process, with nothing set but where it listens and keeps its data.
func startFirn(t *testing.T) *peer {
	t.Helper()
	cfg, err := firn.LoadConfig(firn.Sources{
		DataDir: t.TempDir(),
		Set:     []string{"node.id=1", "listeners=PLAINTEXT://127.0.0.1:0", "firn.http.listener=127.0.0.1:0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	node, err := firn.Start(t.Context(), cfg, firn.Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Stop(context.Background()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return &peer{name: "firn", address: node.Addr()}
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
