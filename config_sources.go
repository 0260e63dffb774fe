package firn

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/magiconair/properties"

	"github.com/firnlog/firn/internal/config"
)

// Sources is where settings come from, the weakest first.
type Sources struct {
	// FileName is the properties file; "" is none. File is what is in it (ReadFile).
	FileName string
	File     []byte
	// Environ is the environment, as os.Environ returns it.
	Environ []string
	// Set is what --set said, key=value each; of two for one key the later holds.
	Set []string
	// DataDir is what --data-dir said: another way to set firn.data.dir.
	DataDir string
}

// ReadFile reads the properties file.
func (s *Sources) ReadFile(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	s.FileName, s.File = name, data
	return nil
}

// assignment is one word on one setting.
type assignment struct {
	name, value, origin string
	// lenient names may be unknown: the environment holds names that others made.
	lenient bool
}

// readSources puts the sources on top of each other: every name is judged, and the values that are left.
func readSources(sources Sources) (*Settings, error) {
	file, err := parseFile(sources.FileName, sources.File)
	if err != nil {
		return nil, err
	}
	flags, err := parseFlags(sources.Set, sources.DataDir)
	if err != nil {
		return nil, err
	}
	settings := &Settings{values: map[string]settingValue{}, defaults: map[string]string{}}
	var errs []error
	for _, a := range slices.Concat(file, parseEnvironment(sources.Environ), flags) {
		if err := settings.accept(a); err != nil {
			errs = append(errs, err)
		}
	}
	return settings, errors.Join(append(errs, settings.joinNodeID(), settings.judge())...)
}

// parseFile reads Kafka's properties format. Nothing like ${…} in a value is expanded.
func parseFile(name string, data []byte) ([]assignment, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	var assignments []assignment
	for line := range logicalLines(data) {
		origin := fmt.Sprintf("%s line %d", name, line.number)
		parsed, err := loader.LoadBytes(line.text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", origin, err)
		}
		for _, key := range parsed.Keys() {
			value, _ := parsed.Get(key)
			assignments = append(assignments, assignment{name: key, value: value, origin: origin})
		}
	}
	return assignments, nil
}

type logicalLine struct {
	number int
	text   []byte
}

// logicalLines yields the lines of a properties file with what continues them: a line that ends in an odd number of
// backslashes goes on in the next, unless it is a comment.
func logicalLines(data []byte) func(yield func(logicalLine) bool) {
	return func(yield func(logicalLine) bool) {
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
		lines := bytes.Split(bytes.ReplaceAll(data, []byte("\r"), []byte("\n")), []byte("\n"))
		for i := 0; i < len(lines); i++ {
			line := logicalLine{number: i + 1, text: lines[i]}
			trimmed := bytes.TrimLeft(line.text, " \t\f")
			if len(trimmed) == 0 || trimmed[0] == '#' || trimmed[0] == '!' {
				continue
			}
			for continues(lines[i]) && i+1 < len(lines) {
				i++
				line.text = slices.Concat(line.text, []byte("\n"), lines[i])
			}
			if !yield(line) {
				return
			}
		}
	}
}

func continues(line []byte) bool {
	return (len(line)-len(bytes.TrimRight(line, `\`)))%2 == 1
}

func parseFlags(set []string, dataDir string) ([]assignment, error) {
	var assignments []assignment
	for _, text := range set {
		name, value, found := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); !found || name == "" {
			return nil, fmt.Errorf("--set %q: KEY=VALUE is expected", text)
		}
		assignments = append(assignments, assignment{name: name, value: value, origin: "--set"})
	}
	if dataDir != "" {
		assignments = append(assignments, assignment{name: "firn.data.dir", value: dataDir, origin: "--data-dir"})
	}
	return assignments, nil
}

// parseEnvironment reads KAFKA_CFG_…, KAFKA_… and FIRN_…, the weakest first. Each is in the order of the names, so
// that two names for one setting always give the same one.
func parseEnvironment(environ []string) []assignment {
	variables := map[string]string{}
	for _, variable := range environ {
		if name, value, found := strings.Cut(variable, "="); found {
			variables[name] = value
		}
	}
	var older, kafka, own []assignment
	for _, variable := range slices.Sorted(maps.Keys(variables)) {
		a := assignment{value: variables[variable], origin: variable, lenient: true}
		if notForNode(variable) {
			continue
		} else if rest, ok := strings.CutPrefix(variable, "KAFKA_CFG_"); ok {
			a.name = settingName(rest)
			older = append(older, a)
		} else if rest, ok := strings.CutPrefix(variable, "KAFKA_"); ok {
			a.name = settingName(rest)
			kafka = append(kafka, a)
		} else if rest, ok := strings.CutPrefix(variable, "FIRN_"); ok {
			a.name = ownName(settingName(rest))
			own = append(own, a)
		}
	}
	return slices.Concat(older, kafka, own)
}

// settingName undoes the rule of Kafka's image: a dot is written _, an underscore __, a hyphen ___.
func settingName(variable string) string {
	name := strings.ReplaceAll(strings.ToLower(variable), "_", ".")
	return strings.ReplaceAll(strings.ReplaceAll(name, "...", "-"), "..", "_")
}

// ownName is Kafka's name where Kafka has it, else firn's own.
func ownName(name string) string {
	if setting, ok := config.LookupBroker(name); ok && setting.Effect != config.Removed {
		return name
	}
	return config.Prefix + name
}

// notForNode tells whether a variable steers something else: Java and the scripts of Kafka's images, or firn's clients.
func notForNode(variable string) bool {
	switch variable {
	case "KAFKA_VERSION", "KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_JMX_OPTS", "KAFKA_JMX_HOSTNAME", "KAFKA_JMX_PORT",
		"KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL",
		"KAFKA_LOG4J_LOGGERS", "KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_HOME", "KAFKA_DEBUG", "KAFKA_CLUSTER_ID",
		"KAFKA_BROKERS", "FIRN_BROKERS":
		return true
	}
	return false
}
