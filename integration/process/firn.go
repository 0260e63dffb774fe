//go:build integration

package process

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Node is `firn serve`, running.
type Node struct {
	// Kafka and HTTP are the addresses HOST:PORT, Dir is the data directory.
	Kafka, HTTP, Dir string

	t       testing.TB
	running *running
	log     *serverLog
}

// Options are how a node is started.
type Options struct {
	Dir    string // data directory; "" is one of its own
	Config string // properties file
	Set    []string
	Env    []string
	Prefix []string // of the command line, for a program that becomes the node
}

// Serve starts a node and waits until it is ready. Its ports are picked by the system, unless Set says otherwise.
func Serve(t testing.TB, options Options) *Node {
	t.Helper()
	n := &Node{t: t, Dir: options.Dir, log: &serverLog{ready: make(chan readyLine, 1)}}
	if n.Dir == "" {
		n.Dir = t.TempDir()
	}
	cmd := ServeCommand(t, n.Dir, options)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	n.running = start(t, cmd)
	go func() {
		defer close(read)
		n.log.read(stderr)
	}()
	t.Cleanup(func() {
		n.running.kill()
		<-read
		if t.Failed() {
			t.Logf("log of the node in %s:\n%s", n.Dir, n.Log())
		}
	})
	select {
	case ready := <-n.log.ready:
		n.Kafka, n.HTTP = ready.Kafka, ready.HTTP
	case <-n.running.done:
		<-read
		t.Fatalf("the node has ended with status %d", cmd.ProcessState.ExitCode())
	case <-time.After(patience):
		t.Fatal("the node does not become ready")
	}
	return n
}

// Other is a node that somebody else runs, to be asked as a client asks.
func Other(t testing.TB, kafka string) *Node { return &Node{Kafka: kafka, t: t} }

// ServeCommand is the command line of a node.
func ServeCommand(t testing.TB, dir string, options Options) *exec.Cmd {
	t.Helper()
	args := []string{"serve", "--format", "json", "--data-dir", dir}
	for _, setting := range append([]string{
		"listeners=PLAINTEXT://127.0.0.1:0", "firn.http.listener=127.0.0.1:0",
	}, options.Set...) {
		args = append(args, "--set", setting)
	}
	if options.Config != "" {
		args = append(args, "--config", options.Config)
	}
	line := append(append(options.Prefix, Firn(t)), args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), options.Env...)
	return cmd
}

// Stop ends the node cleanly, which must succeed.
func (n *Node) Stop() {
	n.t.Helper()
	if status := n.running.terminate(n.t); status != 0 {
		n.t.Fatalf("the node has stopped with status %d", status)
	}
}

// Kill ends the node with SIGKILL.
func (n *Node) Kill() { n.running.kill() }

// Log is what the node has logged.
func (n *Node) Log() string {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	return n.log.text.String()
}

// Get does a GET at the node's HTTP listener.
func (n *Node) Get(path string) (status int, body string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// CLI is a command of firn against this node: its arguments, and -b where a command talks to a cluster, or --http where
// it talks to the node's own listener.
func (n *Node) CLI(args ...string) Command {
	n.t.Helper()
	if args[0] == "tier" || slices.Equal(args[:min(2, len(args))], []string{"topic", "compact"}) {
		args = append(args, "--http", n.HTTP)
	} else {
		args = append(args, "-b", n.Kafka)
	}
	return Command{Path: Firn(n.t), Args: args}
}

// Client is a franz-go client of the node, closed at the end of the test.
func (n *Node) Client(options ...kgo.Opt) *kgo.Client {
	n.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.Kafka)}, options...)...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(client.Close)
	return client
}

// CreateTopic creates a topic with settings KEY=VALUE.
func (n *Node) CreateTopic(name string, partitions int32, settings ...string) {
	n.t.Helper()
	values := map[string]*string{}
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		values[key] = &value
	}
	admin := kadm.NewClient(n.Client())
	if _, err := admin.CreateTopic(n.t.Context(), partitions, 1, values, name); err != nil {
		n.t.Fatal(err)
	}
}

// serverLog keeps a node's log and finds the line that says that it is ready.
type serverLog struct {
	ready chan readyLine

	mu   sync.Mutex // guards the field below
	text bytes.Buffer
}

type readyLine struct {
	Message string `json:"msg"`
	Kafka   string `json:"kafka"`
	HTTP    string `json:"http"`
}

func (l *serverLog) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		l.mu.Lock()
		l.text.Write(lines.Bytes())
		l.text.WriteByte('\n')
		l.mu.Unlock()
		var line readyLine
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "broker is ready" {
			select {
			case l.ready <- line:
			default:
			}
		}
	}
}
