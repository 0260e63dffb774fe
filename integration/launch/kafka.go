package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka is how a node of Apache Kafka, broker and controller in one, is started.
type Kafka struct {
	Lib      string // folder of its jars, as `make kafka-lib` fills it
	Dir      string // for its data and its log; formatted at the first start
	CPU      int    // the only processor that it may use, or AnyCPU
	Java     []string
	Settings []string
}

// StartScript are the flags of Java that Kafka's own start script passes.
func StartScript() []string {
	return []string{
		"-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
		"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
	}
}

// clusterID is 16 zero bytes but for the last, as Kafka writes it.
const clusterID = "AAAAAAAAAAAAAAAAAAAAAQ"

// properties are what a node of Kafka cannot do without.
const properties = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
log.dirs=%[3]s
%[4]s
`

// KafkaVersion is the version of the jars in a folder. The error says how to get them.
func KafkaVersion(lib string) (string, error) {
	const before, behind = "kafka-server-", ".jar"
	found, err := filepath.Glob(filepath.Join(lib, before+"[0-9]*"+behind))
	if err != nil {
		return "", err
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "", err
	}
	if lib == "" || len(found) == 0 {
		return "", fmt.Errorf("no Apache Kafka in %q: FIRN_KAFKA_LIB must be the folder of its jars (`make kafka-lib`)", lib)
	}
	name := strings.TrimPrefix(filepath.Base(found[0]), before)
	return strings.TrimSuffix(name, behind), nil
}

// Format makes an empty folder one of Kafka's. Start does it where it has not been done.
func (k Kafka) Format(ctx context.Context) error {
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return err
	}
	if err := k.configure(ports); err != nil {
		return err
	}
	format := k.java("kafka.tools.StorageTool", "format", "-t", clusterID, "-c", k.configFile())
	if output, err := exec.CommandContext(ctx, format[0], format[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("format Kafka's directory: %w\n%s", err, output)
	}
	return nil
}

func (k Kafka) configFile() string { return filepath.Join(k.Dir, "server.properties") }

func (k Kafka) logDir() string { return filepath.Join(k.Dir, "logs") }

// configure writes the configuration with the ports of a start.
func (k Kafka) configure(ports []int) error {
	text := fmt.Sprintf(properties, ports[0], ports[1], k.logDir(), strings.Join(k.Settings, "\n"))
	return os.WriteFile(k.configFile(), []byte(text), 0o600)
}

// Start runs a node and waits until it has registered itself, which is when it serves.
func (k Kafka) Start(ctx context.Context) (*Broker, error) {
	if _, err := os.Stat(filepath.Join(k.logDir(), "meta.properties")); errors.Is(err, os.ErrNotExist) {
		if err := k.Format(ctx); err != nil {
			return nil, err
		}
	}
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	if err := k.configure(ports); err != nil {
		return nil, err
	}
	b, err := command{name: "kafka", dir: k.Dir, cpu: k.CPU, args: k.java("kafka.Kafka", k.configFile())}.start()
	if err != nil {
		return nil, err
	}
	b.Address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	return b, b.await(ctx, func(ctx context.Context) bool { return registered(ctx, b.Address) })
}

func (k Kafka) java(args ...string) []string {
	command := append([]string{"java"}, k.Java...)
	return append(append(command, "-cp", filepath.Join(k.Lib, "*")), args...)
}

// Tool is the command line of one of Kafka's tools.
func (k Kafka) Tool(class string, args ...string) []string {
	return k.java(append([]string{class}, args...)...)
}

// registered asks a broker for the brokers.
func registered(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if conn, err := new(net.Dialer).DialContext(ctx, "tcp", address); err != nil {
		return false // a client would wait before it tries again
	} else if conn.Close() != nil {
		return false
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RequestRetries(0))
	if err != nil {
		return false
	}
	defer client.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	answer, err := request.RequestWith(ctx, client)
	return err == nil && len(answer.Brokers) == 1
}

// freePorts are different ports that nobody listens on.
func freePorts(ctx context.Context, count int) ([]int, error) {
	ports := make([]int, count)
	for i := range ports {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("%v is no TCP address", listener.Addr())
		}
		ports[i] = address.Port
	}
	return ports, nil
}
