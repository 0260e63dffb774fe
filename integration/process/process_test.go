//go:build integration

package process

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestANodeTellsHowItIsAndStopsWhenItIsTold(t *testing.T) {
	node := Serve(t, Options{})
	for path, want := range map[string]string{
		"/healthz": "", "/readyz": "", "/metrics": "kafka_server_", "/api/v1/tier": `"partitions"`,
	} {
		if status, body := node.Get(path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s is answered with %d and %.300s", path, status, body)
		}
	}
	if status, _ := node.Get("/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("profiles are answered with %d although nobody asked for them", status)
	}
	node.Client() // a client that is connected does not keep the node from stopping
	began := time.Now()
	node.Stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if log := node.Log(); !strings.Contains(log, `"msg":"stopped"`) || strings.Contains(log, `"level":"ERROR"`) {
		t.Error("the log has errors, or no line that says that the node has stopped")
	}
	for _, folder := range []string{"log", "metadata", "bucket"} {
		if _, err := os.Stat(filepath.Join(node.Dir, folder)); err != nil {
			t.Error(err)
		}
	}
	again := Serve(t, Options{Dir: node.Dir, Set: []string{"firn.http.pprof=true"}})
	if status, _ := again.Get("/debug/pprof/"); status != http.StatusOK {
		t.Errorf("profiles, which were asked for, are answered with %d", status)
	}
	again.Stop()
}

func TestASecondNodeOnTheSameDataIsRefused(t *testing.T) {
	first := Serve(t, Options{})
	second := ServeCommand(t, first.Dir, Options{})
	result := Command{Path: second.Path, Args: second.Args[1:]}.Run(t)
	last := lastLine(result.Stderr)
	if result.Status != 1 || !strings.Contains(last, "in use") || !strings.Contains(last, first.Dir) {
		t.Errorf("the second node ended with status %d and %q", result.Status, last)
	}
	if status, _ := first.Get("/readyz"); status != http.StatusOK {
		t.Error("the first node is disturbed")
	}
	first.Kill() // the lock goes with the process
	Serve(t, Options{Dir: first.Dir}).Stop()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// TestAWrongConfigurationRefusesTheStart runs serve with settings that it must refuse, and says why in one line.
func TestAWrongConfigurationRefusesTheStart(t *testing.T) {
	used := Serve(t, Options{})
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte("node.id=1\nlog.retention.huors=5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args   []string
		status int
		says   []string
	}{
		"an unknown name": {
			[]string{"--set", "log.retention.mss=5"}, 1,
			[]string{"log.retention.mss", "log.retention.ms"},
		},
		"an unknown name in a file": {
			[]string{"--config", file}, 1,
			[]string{"server.properties line 2", "log.retention.hours"},
		},
		"a value that is none":    {[]string{"--set", "num.partitions=many"}, 1, []string{"num.partitions", "many"}},
		"TLS, which is not there": {[]string{"--set", "listeners=SSL://127.0.0.1:0"}, 1, []string{"SSL"}},
		"an authorizer": {
			[]string{"--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, 1,
			[]string{"authorizer.class.name"},
		},
		"no equals sign":         {[]string{"--set", "node.id"}, 1, []string{"node.id"}},
		"a file that is missing": {[]string{"--config", file + ".bak"}, 1, []string{file + ".bak"}},
		"an unknown flag":        {[]string{"--port", "9092"}, 2, []string{"--port"}},
		"an argument":            {[]string{"here"}, 2, []string{"here"}},
		"a port that is taken": {
			[]string{"--set", "listeners=PLAINTEXT://" + used.Kafka, "--set", "firn.http.listener=127.0.0.1:0"}, 1,
			[]string{used.Kafka, "in use"},
		},
		"an object store of an unknown kind": {
			[]string{"--set", "firn.object.store=ftp://host/x"}, 1,
			[]string{"firn.object.store"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"serve", "--data-dir", t.TempDir()}, c.args...)
			result := Command{Path: Firn(t), Args: args}.Run(t)
			last := lastLine(result.Stderr)
			if result.Status != c.status || !strings.HasPrefix(last, "firn: ") || result.Stdout != "" {
				t.Errorf("status %d, %q", result.Status, result.Stderr)
			}
			for _, part := range c.says {
				if !strings.Contains(last, part) {
					t.Errorf("%q does not name %q", last, part)
				}
			}
		})
	}
}

func TestAStockConfigurationStartsANodeWithNotices(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	stock := "process.roles=broker,controller\nnode.id=7\ncontroller.quorum.bootstrap.servers=localhost:9093\n" +
		"controller.listener.names=CONTROLLER\nnum.network.threads=3\nzookeeper.connect=localhost:2181\n"
	if err := os.WriteFile(file, []byte(stock), 0o600); err != nil {
		t.Fatal(err)
	}
	node := Serve(t, Options{Config: file, Env: []string{
		"FIRN_NUM_PARTITIONS=3", "KAFKA_LOG_RETENTION_HOURS=5", "FIRN_PORT=tcp://10.0.0.1:80",
	}})
	for _, part := range []string{"zookeeper.connect", "there is no ZooKeeper", "FIRN_PORT", `"node":7`} {
		if !strings.Contains(node.Log(), part) {
			t.Errorf("the log says nothing of %s", part)
		}
	}
	node.CLI("topic", "create", "events").Output(t)
	described := node.CLI("topic", "describe", "events", "--format", "json").Output(t)
	for _, part := range []string{`"partition": 2`, `"18000000"`} {
		if !strings.Contains(described, part) {
			t.Errorf("the topic has not got %s: %s", part, described)
		}
	}
	node.Stop()
}

func TestTheDemoRunsAndLeavesNothingBehind(t *testing.T) {
	temporary := t.TempDir()
	began := time.Now()
	out := Command{
		Path: Firn(t), Args: []string{"demo", "--format", "json"}, Env: []string{"TMPDIR=" + temporary}, Dir: t.TempDir(),
	}.Output(t)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the demo took %v", took)
	}
	var summary struct {
		Events  int   `json:"events"`
		Objects int64 `json:"objects"`
		Same    bool  `json:"same"`
	}
	if err := json.Unmarshal([]byte(out), &summary); err != nil {
		t.Fatal(err)
	}
	if summary.Events != 27_004 || summary.Objects < 25 || !summary.Same {
		t.Errorf("summary %s", out)
	}
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) != 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}
