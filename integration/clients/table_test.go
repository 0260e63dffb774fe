//go:build integration

package clients

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/firnlog/firn/integration/process"
)

// client is a row of the matrix: somebody's library or program.
type client struct {
	name string
	// version is where its version is pinned.
	version pin
	// open prepares it to use a node. Where it is not installed the test ends with process.Missing.
	open func(t *testing.T, node *process.Node) peer
	// lacks are what the client itself cannot do. All else is tested.
	lacks []lack
}

// lack is something that a client cannot do.
type lack struct {
	side     side
	features []feature
	reason   string
}

// onlyClassic is what clients lack that were not written for Kafka 4.
var onlyClassic = lack{joins, []feature{feature(next)}, "it has the classic protocol only"}

// clients are all of them, in the order of the page.
func clients() []client {
	return []client{
		{
			name: "franz-go", version: pin{"../../go.mod", `twmb/franz-go v(\S+)`},
			open: func(_ *testing.T, node *process.Node) peer { return franz{node} },
		},
		{
			name: "kcat", version: pin{}, open: openKcat,
			lacks: []lack{
				{writes, []feature{times}, "it has no option for the time of a record"},
				{writes, []feature{transaction}, "it has no option for them"},
				{joins, []feature{feature(next)}, "the librdkafka of its package is too old"},
				{joins, []feature{mixed}, "not tried: confluent-kafka is librdkafka too"},
			},
		},
		{
			name: "confluent-kafka", version: pin{"requirements.txt", `confluent-kafka==(\S+)`},
			open: openPython("exchange_confluent.py"),
		},
		{
			name: "kafka-python", version: pin{"requirements.txt", `kafka-python==(\S+)`},
			open: openPython("exchange_kafka_python.py"),
			lacks: []lack{
				{writes, []feature{bothNull}, "it asks for a key or a value"},
				{writes, []feature{nullHeaders}, "it asks for bytes"},
				onlyClassic,
			},
		},
		{
			name: "aiokafka", version: pin{"requirements.txt", `aiokafka==(\S+)`},
			open:  openPython("exchange_aiokafka.py"),
			lacks: []lack{{writes, []feature{bothNull}, "it asks for a key or a value"}, onlyClassic},
		},
		{
			name: "kafkajs", version: pin{"js/package.json", `"kafkajs": "(.+)"`}, open: openNode("js/exchange.js"),
			lacks: []lack{
				{writes, []feature{nullHeaders}, "it takes the length of null"},
				onlyClassic, {joins, []feature{mixed}, "its assignor is its own"},
			},
		},
		{
			name: "kafka-clients", version: pin{"pom.xml", `<kafka.version>(.+)</`}, open: openJava("clients"),
		},
		{
			name: "spring-kafka", version: pin{"pom.xml", `<spring-kafka.version>(.+)</`}, open: openJava("spring"),
		},
		{
			name: "sarama", version: pin{"gopeers/go.mod", `IBM/sarama v(\S+)`}, open: openGo("sarama"),
			lacks: []lack{onlyClassic},
		},
		{
			name: "segmentio", version: pin{"gopeers/go.mod", `segmentio/kafka-go v(\S+)`}, open: openGo("segmentio"),
			lacks: []lack{
				{reads, []feature{empties}, "its reader tells what is empty as null"}, onlyClassic,
				{writes, []feature{transaction}, "it has their requests, but no producer that uses them"},
				{reads, []feature{committedOnly}, "it does not leave out what was aborted, nor the markers"},
				{joins, []feature{mixed}, "Java's leaders cannot read its subscription, which is shorter than its version says"},
			},
		},
	}
}

func openKcat(t *testing.T, node *process.Node) peer {
	t.Helper()
	path, err := exec.LookPath("kcat")
	if err != nil {
		process.Missing(t, "kcat", err)
	}
	return kcat{node, path}
}

// openPython runs a script with the Python that has the libraries.
func openPython(script string) func(*testing.T, *process.Node) peer {
	return func(t *testing.T, node *process.Node) peer {
		t.Helper()
		fallback := filepath.Join("..", "..", ".cache", "python", "bin", "python")
		path := process.Program(t, "FIRN_PYTHON", fallback)
		return program{path: path, args: []string{"-B", script}, brokers: node.Kafka} // -B leaves no bytecode behind
	}
}

// openNode runs a script with Node.js and the folder that has the libraries.
func openNode(script string) func(*testing.T, *process.Node) peer {
	return func(t *testing.T, node *process.Node) peer {
		t.Helper()
		path, err := exec.LookPath("node")
		if err != nil {
			process.Missing(t, "node", err)
		}
		modules := process.Program(t, "FIRN_NODE_MODULES", filepath.Join("..", "..", ".cache", "node", "node_modules"))
		return program{path: path, args: []string{script}, env: []string{"NODE_PATH=" + modules}, brokers: node.Kafka}
	}
}

// openGo prepares the program of other Go clients with one of them.
func openGo(library string) func(*testing.T, *process.Node) peer {
	return func(t *testing.T, node *process.Node) peer {
		t.Helper()
		path := process.Program(t, "FIRN_GOPEERS", filepath.Join("..", "..", "bin", "tools", "gopeers"))
		return program{path: path, args: []string{library}, brokers: node.Kafka}
	}
}
