package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcome is what one command line printed and returned.
type outcome struct {
	status   int
	out, err string
}

func firn(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	status := run(t.Context(), args, streams{in: strings.NewReader(stdin), out: &out, err: &errs})
	return outcome{status: status, out: out.String(), err: errs.String()}
}

// leaves calls visit with every command of our own that does something.
func leaves(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, child := range cmd.Commands() {
		if child.Name() == "help" || child.Name() == "completion" {
			continue // cobra's own
		}
		if child.HasSubCommands() {
			leaves(child, visit)
			continue
		}
		visit(child)
	}
}

func TestEveryCommandSpeaksJSONAndSaysWhatItDoes(t *testing.T) {
	count := 0
	leaves(rootCommand(), func(cmd *cobra.Command) {
		count++
		path := cmd.CommandPath()
		flag := cmd.Flags().Lookup("format")
		if flag == nil {
			t.Errorf("%s has no --format", path)
			return
		}
		if flag.Shorthand != "f" || !strings.Contains(flag.Usage, formatJSON) {
			t.Errorf("%s: --format must be -f and know %s, but is -%s: %s", path, formatJSON, flag.Shorthand, flag.Usage)
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short description %q", path, cmd.Short)
		}
		if cmd.RunE == nil || cmd.Run != nil {
			t.Errorf("%s must return its error", path)
		}
	})
	if count < 10 {
		t.Fatalf("only %d commands were found", count)
	}
}

func TestFormatHelpNeedsNeitherArgumentsNorACluster(t *testing.T) {
	for _, args := range [][]string{
		{"topic", "create"}, {"topic", "describe"}, {"topic", "list"}, {"topic", "alter"}, {"topic", "delete"},
		{"produce"}, {"consume"}, {"bench", "produce"}, {"bench", "consume"}, {"bench", "e2e"},
		{"group", "list"}, {"group", "describe"}, {"group", "seek"}, {"group", "delete"}, {"group", "offset-delete"},
		{"txn", "list"}, {"txn", "describe"}, {"txn", "abort"},
		{"tier", "status"}, {"tier", "ls"}, {"tier", "pins"}, {"healthcheck"}, {"version"},
	} {
		got := firn(t, "", append(args, "--format", "help")...)
		if got.status != 0 || !strings.HasPrefix(got.out, "{\n") || !strings.Contains(got.out, `": `) {
			t.Errorf("firn %s --format help: status %d, output %q, error %q",
				strings.Join(args, " "), got.status, got.out, got.err)
		}
	}
}

func TestAWrongCommandLineIsOneLineAndStatusTwo(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"topik", "did you mean topic?"},
		{"topic", "a command is missing"},
		{"topic creat x", "did you mean create?"},
		{"topic create", "requires at least 1 arg(s)"},
		{"topic create x -c nonsense", "is not KEY=VALUE"},
		{"topic create x -c a=1 -c a=2", "given twice"},
		{"topic alter x", "nothing to change"},
		{"topic alter x -c a=1 --delete a", "both set and deleted"},
		{"topic alter x --delete a=1", "takes KEY alone"},
		{"topic list --nonsense", "unknown flag"},
		{"topic list --format yaml", `unknown format "yaml"`},
		{"produce", "firn produce TOPIC"},
		{"produce -f json x y", "accepts at most 1 arg(s)"},
		{"produce -f %v", "a topic is missing"},
		{"produce x --partitioner crc32", "unknown --partitioner"},
		{"produce x --acks 1 --idempotent", "--idempotent needs --acks all"},
		{"produce x --acks 0 --sync", "never answered"},
		{"produce x --acks 0 -o %o", "never answered"},
		{"produce x -o offsets", "unknown --output-format"},
		{"produce x -o %Q", "layout"},
		{"produce x --linger -1s", "--linger must be between"},
		{"produce x --batch-size 10", "--batch-size must be between"},
		{"produce x --batch-size many", "is not a number of bytes"},
		{"produce x --buffer-memory 10", "--buffer-memory must be at least"},
		{"produce x -i missing/file", "--input"},
		{"produce x -f raw -D ;", "belong to --format text"},
		{"produce x --acks 2", "unknown --acks"},
		{"produce x --timeout 0s", "must be positive"},
		{"produce x -z brotli", "unknown --compression"},
		{"produce x -K : -k key", "exclude each other"},
		{"produce x -p 1 --repartition", "exclude each other"},
		{"produce x -f json -K :", "belong to --format text"},
		{"produce x --timestamp yesterday", "is not a time"},
		{"produce x -H =v", "has no key"},
		{"produce x -f %Z", "layout"},
		{"consume", "firn consume TOPIC"},
		{"consume x -o middle", "is not start, end"},
		{"consume x -F -o 1:5", "has no end"},
		{"consume x -n -1", "must not be negative"},
		{"consume ( --regex", "missing closing )"},
		{"consume x -f yaml", "a layout has percent signs"},
		{"consume x --keys -f json", "belong to --format text"},
		{"consume x -D ; -f %v", "belong to --format text"},
		{"consume x --meta-only", "belongs to --format json"},
		{"consume x -Z -f json", "JSON has its own null"},
		{"consume x --filter-key (", "--filter-key"},
		{"consume x --filter-header =v", "has no key"},
		{"consume x -f raw", `unknown format "raw"`},
		{"bench", "a command is missing"},
		{"bench produce x y", "accepts at most 1 arg(s)"},
		{"bench produce --rate fast", "is not a rate"},
		{"bench produce -s 0", "--record-size must be at least 1"},
		{"bench produce -s 1g", "--record-size must be at most"},
		{"bench produce -d 0s", "there is no end"},
		{"bench produce -d -1s", "must not be negative"},
		{"bench produce -n -1", "--records must not be negative"},
		{"bench produce --clients 0", "--clients must be between"},
		{"bench produce --keys -1", "--keys must be between"},
		{"bench produce --acks 1 --in-flight 0", "--in-flight must be between"},
		{"bench produce --in-flight 1", "--in-flight needs --idempotent=false"},
		{"bench produce x --keep", "--keep is for a topic that is made"},
		{"bench e2e x -p 2", "--partitions is for a topic that is made"},
		{"bench produce -c a", "is not KEY=VALUE"},
		{"bench produce --acks 2", "unknown --acks"},
		{"bench e2e --rate 0", "--rate must be positive"},
		{"bench e2e -s 40", "--record-size must be at least 49"},
		{"bench consume", "firn bench consume TOPIC"},
		{"bench consume x -o middle", "is not start, end"},
		{"bench consume x -n -1", "--records must not be negative"},
		{"bench consume x -d -1s", "--duration must not be negative"},
		{"bench consume x --clients 0", "--clients must be between"},
		{"bench consume x --fetch-max-bytes 1k", "no less than --fetch-partition-bytes"},
		{"bench consume x --fetch-min-bytes 0", "--fetch-min-bytes must be between"},
		{"bench consume x --fetch-max-wait 0s", "--fetch-max-wait must be between"},
		{"group", "a command is missing"},
		{"group list x", "unknown command"},
		{"group describe", "requires at least 1 arg(s)"},
		{"group delete", "requires at least 1 arg(s)"},
		{"group offset-delete g", "requires at least 2 arg(s)"},
		{"group offset-delete g t:x", "is not a partition"},
		{"group offset-delete g t t:1", "give each topic once"},
		{"group seek g", "where to? give --to, --shift or --to-group"},
		{"group seek g --to start --shift 1", "exclude each other"},
		{"group seek g --to 1:2", "is a range"},
		{"group seek g --to soon", "is not start, end"},
		{"produce x --transactional-id a --acks 1", "--transactional-id needs --acks all"},
		{"produce x --transactional-id=", "--transactional-id is empty"},
		{"produce x --transaction-timeout 1s", "belongs to --transactional-id"},
		{"produce x --transactional-id a --transaction-timeout 0s", "must be positive"},
		{"consume x --isolation none", "unknown isolation"},
		{"consume x --group=", "--group is empty"},
		{"consume x --instance-id i", "belong to --group"},
		{"consume x --group-protocol consumer", "belong to --group"},
		{"consume x -g g --group-protocol share", "classic and consumer are known"},
		{"consume x --commit none", "belong to --group"},
		{"consume x --group g --commit later", "unknown --commit"},
		{"consume x --group g -p 1", "the group shares the partitions out"},
		{"consume x --group g -o 1:5", "must not have an end"},
		{"txn", "a command is missing"},
		{"txn describe", "requires at least 1 arg(s)"},
		{"txn abort", "which transaction?"},
		{"txn abort x --partition t:1 --start-offset 1", "exclude each other"},
		{"txn abort --partition t:1", "belong together"},
		{"txn abort --start-offset 1 --partition t", "give one partition"},
		{"tier ls", "firn tier ls TOPIC"},
	} {
		got := firn(t, "", strings.Fields(test.line)...)
		if got.status != exitUsage || !strings.Contains(got.err, test.want) || strings.Count(got.err, "\n") != 1 ||
			!strings.HasPrefix(got.err, "firn: ") {
			t.Errorf("firn %s: status %d, error %q, want status %d and one line with %q",
				test.line, got.status, got.err, exitUsage, test.want)
		}
	}
}

// TestCL02ABadBrokerFailsAtOnce: every command that needs a cluster says where it looked and exits non-zero.
func TestCL02ABadBrokerFailsAtOnce(t *testing.T) {
	address := closedPort(t)
	for _, line := range []string{
		"topic list", "topic create x", "topic describe x", "topic alter x -c a=1", "topic delete x",
		"produce x", "consume x", "consume x --follow", "bench produce", "bench consume x", "bench e2e x",
		"group list", "group describe x", "group delete x", "group offset-delete x t", "group seek x --to start",
		"txn list", "txn describe x", "txn abort x", "consume x --group g", "produce x --transactional-id a",
	} {
		got := firn(t, "record\n", append(strings.Fields(line), "-b", address)...)
		want := "firn: cannot reach a broker at " + address +
			": connection refused; is `firn serve` running, or give -b HOST:PORT\n"
		if got.status != exitFailed || got.err != want || got.out != "" {
			t.Errorf("firn %s: status %d, output %q, error %q, want %q", line, got.status, got.out, got.err, want)
		}
	}
	for _, line := range []string{"tier status", "tier ls x", "tier pins", "tier pins --end x", "consume x --from-bucket"} {
		got := firn(t, "", append(strings.Fields(line), "--http", address)...)
		if got.status != exitFailed || !strings.Contains(got.err, "give --http HOST:PORT") ||
			strings.Count(got.err, "\n") != 1 {
			t.Errorf("firn %s: status %d, error %q", line, got.status, got.err)
		}
	}
}

// closedPort is an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

func TestAnInterruptEndsACommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	std := streams{in: strings.NewReader(""), out: &out, err: &errs}
	status := run(ctx, []string{"topic", "list", "-b", closedPort(t)}, std)
	if status != exitFailed || errs.String() != "firn: interrupted\n" {
		t.Errorf("status %d, error %q", status, errs.String())
	}
}

func TestBrokerAddresses(t *testing.T) {
	for _, test := range []struct {
		name         string
		flags        []string
		firn, kafka  string
		want, failed string
	}{
		{name: "nothing said means this machine", want: "127.0.0.1:9092"},
		{name: "the flag wins over the environment", flags: []string{"a:1"}, firn: "b:2", want: "a:1"},
		{name: "firn's variable wins over Kafka's", firn: "b:2,c:3", kafka: "d:4", want: "b:2 c:3"},
		{name: "Kafka's variable counts", kafka: "d:4", want: "d:4"},
		{name: "a missing port is Kafka's", flags: []string{"host", "other:1"}, want: "host:9092 other:1"},
		{name: "an address of IPv6", flags: []string{"[::1]:9", "::1", "[::2]"}, want: "[::1]:9 [::1]:9092 [::2]:9092"},
		{name: "a port alone is this machine's", flags: []string{":9093"}, want: "127.0.0.1:9093"},
		{name: "too many colons", flags: []string{"a:1:2"}, failed: "is not an address"},
		{name: "an empty address", flags: []string{""}, failed: "is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("FIRN_BROKERS", test.firn)
			t.Setenv("KAFKA_BROKERS", test.kafka)
			seeds, err := (&brokerFlag{addresses: test.flags}).seeds()
			if test.failed != "" {
				if err == nil || !strings.Contains(err.Error(), test.failed) {
					t.Fatalf("seeds %v, error %v, want %q", seeds, err, test.failed)
				}
				return
			}
			if got := strings.Join(seeds, " "); err != nil || got != test.want {
				t.Errorf("seeds %q, error %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestOutputToAFileOrBufferIsNoTerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if isTerminal(file) || isTerminal(&bytes.Buffer{}) {
		t.Error("taken for a terminal")
	}
}

// TestCompletionDoesNotWaitForAClusterThatDoesNotAnswer: whoever pressed the tab key waits a second, no more.
func TestCompletionDoesNotWaitForAClusterThatDoesNotAnswer(t *testing.T) {
	var listen net.ListenConfig
	silent, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	got := firn(t, "", "__complete", "consume", "-b", silent.Addr().String(), "")
	if took := time.Since(began); took > 5*completionTimeout || strings.Contains(got.out, "\x1b") {
		t.Errorf("it took %v, printed %q", took, got.out)
	}
	if !strings.HasPrefix(got.out, ":") { // no names, only what the shell is to do without them
		t.Errorf("completes to %q", got.out)
	}
}

func TestFlagsComplete(t *testing.T) {
	for flag, want := range map[string]string{
		"--acks": "all\n1\n0\n", "--compression": "gzip\nlz4\nnone\nsnappy\nzstd\n",
		"--partitioner": "murmur2\nsticky\nround-robin\nrandom\n", "--format": "text\njson\njsonl\nraw\nhelp\n",
	} {
		if got := firn(t, "", "__complete", "produce", "x", flag, ""); !strings.HasPrefix(got.out, want+":") {
			t.Errorf("%s completes to %q", flag, got.out)
		}
	}
}

// TestExitStatuses: what the help of the root command says about them is so.
func TestExitStatuses(t *testing.T) {
	for want, err := range map[int]error{
		0: nil, exitFailed: kerr.UnknownTopicOrPartition, exitUsage: usageError{"firn", errors.New("no")},
		exitPartial: partialError{kerr.UnknownTopicOrPartition},
		exitDenied:  fmt.Errorf("topic x: %w", kerr.TopicAuthorizationFailed),
	} {
		if got := exitStatus(err); got != want {
			t.Errorf("%v is status %d, want %d", err, got, want)
		}
		if help := rootCommand().Long; !strings.Contains(help, fmt.Sprintf("\n  %d  ", want)) {
			t.Errorf("the help does not name status %d", want)
		}
	}
}
