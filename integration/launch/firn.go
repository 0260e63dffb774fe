package launch

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// Firn is how the built binary is started.
type Firn struct {
	Binary   string
	Dir      string // for its data and its log; it exists
	CPU      int    // the only processor that it may use, or AnyCPU
	Settings []string
	Env      []string
}

// Start runs a node and waits until it is ready. The system picks its ports.
func (f Firn) Start(ctx context.Context) (*Broker, error) {
	args := []string{f.Binary, "serve", "--format", "json", "--data-dir", filepath.Join(f.Dir, "data")}
	for _, setting := range append([]string{
		"listeners=PLAINTEXT://127.0.0.1:0", "firn.http.listener=127.0.0.1:0",
	}, f.Settings...) {
		args = append(args, "--set", setting)
	}
	b, err := command{name: "firn", dir: f.Dir, cpu: f.CPU, args: args, env: f.Env}.start()
	if err != nil {
		return nil, err
	}
	return b, b.await(ctx, func(context.Context) bool {
		text, err := os.ReadFile(b.log)
		if err != nil {
			return false
		}
		b.Address, b.HTTP = ready(string(text))
		return b.Address != ""
	})
}

// ready finds the addresses in the line of a log that says that the node is ready.
func ready(log string) (kafka, http string) {
	for line := range strings.Lines(log) {
		var entry struct {
			Message string `json:"msg"`
			Kafka   string `json:"kafka"`
			HTTP    string `json:"http"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "broker is ready" {
			return entry.Kafka, entry.HTTP
		}
	}
	return "", ""
}
