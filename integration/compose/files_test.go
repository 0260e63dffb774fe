package compose

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// root is the repository.
var root = filepath.Join("..", "..")

// project is docker-compose.yml; what is not in here may not be in there.
type project struct {
	Name     string             `yaml:"name"`
	Services map[string]service `yaml:"services"`
	Networks map[string]struct {
		Name string `yaml:"name"`
	} `yaml:"networks"`
	Volumes map[string]struct{} `yaml:"volumes"`
}

type service struct {
	Build           string            `yaml:"build"`
	Image           string            `yaml:"image"`
	Profiles        []string          `yaml:"profiles"`
	Restart         string            `yaml:"restart"`
	StopGracePeriod string            `yaml:"stop_grace_period"`
	ReadOnly        bool              `yaml:"read_only"`
	CapDrop         []string          `yaml:"cap_drop"`
	SecurityOpt     []string          `yaml:"security_opt"`
	Command         []string          `yaml:"command"`
	Environment     map[string]string `yaml:"environment"`
	Ports           []string          `yaml:"ports"`
	Volumes         []string          `yaml:"volumes"`
	Healthcheck     healthcheck       `yaml:"healthcheck"`
	Networks        networks          `yaml:"networks"`
}

type healthcheck struct {
	Test        []string `yaml:"test"`
	Interval    string   `yaml:"interval"`
	Timeout     string   `yaml:"timeout"`
	Retries     int      `yaml:"retries"`
	StartPeriod string   `yaml:"start_period"`
}

// networks are a list of names, or a map from names to aliases.
type networks map[string][]string

// UnmarshalYAML implements yaml.Unmarshaler.
func (n *networks) UnmarshalYAML(node *yaml.Node) error {
	*n = networks{}
	if node.Kind == yaml.SequenceNode {
		var names []string
		if err := node.Decode(&names); err != nil {
			return err
		}
		for _, name := range names {
			(*n)[name] = nil
		}
		return nil
	}
	var byName map[string]map[string][]string
	if err := node.Decode(&byName); err != nil {
		return err
	}
	for name, settings := range byName {
		(*n)[name] = settings["aliases"]
	}
	return nil
}

func readProject(t *testing.T) project {
	t.Helper()
	var read project
	decode(t, filepath.Join(root, "docker-compose.yml"), &read)
	return read
}

func (p project) service(t *testing.T, name string) service {
	t.Helper()
	found, ok := p.Services[name]
	if !ok {
		t.Fatalf("there is no service %s", name)
	}
	return found
}

// decode reads a YAML file in which everything must be known, and nothing may stand twice.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(readFile(t, file)))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := decoder.Decode(&struct{}{}); err != io.EOF {
		t.Fatalf("%s: there is a second document", file)
	}
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// instruction is a line of the Dockerfile, or several that are one.
type instruction struct{ name, rest string }

// readDockerfile splits the Dockerfile into its stages.
func readDockerfile(t *testing.T) (stages [][]instruction) {
	t.Helper()
	text := strings.ReplaceAll(string(readFile(t, filepath.Join(root, "Dockerfile"))), "\\\n", " ")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		if name == "FROM" {
			stages = append(stages, nil)
		}
		if len(stages) == 0 {
			t.Fatalf("%s stands before FROM", line)
		}
		last := len(stages) - 1
		stages[last] = append(stages[last], instruction{name, strings.TrimSpace(rest)})
	}
	return stages
}
