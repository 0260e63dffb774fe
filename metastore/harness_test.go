package metastore

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// id makes an id that begins with text.
func id(text string) kafka.UUID {
	var uuid kafka.UUID
	copy(uuid[:], text)
	return uuid
}

func idText(uuid kafka.UUID) string { return string(bytes.TrimRight(uuid[:], "\x00")) }

func openState(t testing.TB, fs vfs.FS) *state.DB {
	t.Helper()
	db, err := state.Open(state.Options{FS: fs, Dir: "state", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func closeState(t testing.TB, db *state.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// newMachine is a state machine without raft: what it would tell watchers is dropped.
func newMachine(t testing.TB, db *state.DB) *machine {
	t.Helper()
	img, err := loadImage(db)
	if err != nil {
		t.Fatal(err)
	}
	return &machine{
		db:      db,
		image:   img,
		metrics: newMetrics(nil),
		emit:    func(u update) { close(u.told) },
		fail:    func(err error) { t.Errorf("the state machine has stopped: %v", err) },
	}
}

func logEntry(index uint64, cmd command.Command) *raft.Log {
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: command.Encode(cmd)}
}

// apply gives the state machine the next command of its log.
func apply(m *machine, cmd command.Command) (any, error) {
	outcome := m.Apply(logEntry(m.image.Index+1, cmd)).(*applied)
	return outcome.result, outcome.err
}

// mustApply is apply for a command that is accepted.
func mustApply(t testing.TB, m *machine, cmd command.Command) any {
	t.Helper()
	result, err := apply(m, cmd)
	if err != nil {
		t.Fatalf("%s: %v", cmd.Type(), err)
	}
	return result
}

// describe prints everything in an image except who leads the quorum, which is not part of the state.
func describe(img *image.Image) string {
	var out strings.Builder
	fmt.Fprintf(&out, "index %d cluster %s next producer id %d elapsed %d\n",
		img.Index, idText(img.ClusterID), img.NextProducerID, img.ElapsedMs)
	for _, broker := range img.Brokers {
		rack := "none"
		if broker.Rack != nil {
			rack = *broker.Rack
		}
		fmt.Fprintf(&out, "broker %d epoch %d incarnation %s rack %s at %v in %x\n",
			broker.ID, broker.Epoch, idText(broker.Incarnation), rack, broker.Listeners, broker.Directories)
	}
	for _, name := range img.BrokerConfigNames() {
		fmt.Fprintf(&out, "settings of broker %q %v\n", name, img.BrokerConfig(name))
	}
	for _, name := range img.GroupConfigNames() {
		fmt.Fprintf(&out, "settings of group %q %v\n", name, img.GroupConfig(name))
	}
	for topic := range img.Topics() {
		fmt.Fprintf(&out, "topic %s %s internal %t %v", idText(topic.ID), topic.Name, topic.Internal, topic.Configs)
		for _, origin := range topic.Origins {
			fmt.Fprintf(&out, " of %s", idText(origin))
		}
		out.WriteString("\n")
		for i, p := range topic.Partitions {
			fmt.Fprintf(&out, "  %d: leader %d epoch %d/%d replicas %v in %x isr %v",
				i, p.Leader, p.Epoch, p.PartitionEpoch, p.Replicas, p.Directories, p.ISR)
			if p.Tier != nil {
				fmt.Fprintf(&out, " tier %+v", *p.Tier)
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

// dumpReplicated prints the bytes that every node must have the same.
func dumpReplicated(t testing.TB, db *state.DB) string {
	t.Helper()
	var out strings.Builder
	for _, space := range state.ReplicatedSpaces() {
		if err := db.Space(space).Scan(nil, func(key, value []byte) error {
			fmt.Fprintf(&out, "%c %x = %x\n", space, key, value)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// expectLoaded checks that the database holds what the image says.
func expectLoaded(t testing.TB, db *state.DB, img *image.Image) {
	t.Helper()
	loaded, err := loadImage(db)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(describe(img), describe(loaded)); diff != "" {
		t.Fatalf("the database differs from the image (-image +database):\n%s", diff)
	}
}

// newTopic is a topic whose replicas are on broker 1.
func newTopic(name string, partitions int) command.NewTopic {
	topic := command.NewTopic{ID: id(name), Name: name}
	for range partitions {
		topic.Partitions = append(topic.Partitions, command.NewPartition{
			Replicas: []kafka.BrokerID{1}, Directories: []kafka.UUID{id("d1")},
		})
	}
	return topic
}

func registration(broker kafka.BrokerID) command.RegisterBroker {
	return command.RegisterBroker{
		ID: broker, Incarnation: id(fmt.Sprint("i", broker)),
		Listeners:   []command.Endpoint{{Name: "PLAINTEXT", Host: "localhost", Port: 9092, Protocol: "PLAINTEXT"}},
		Directories: []kafka.UUID{id(fmt.Sprint("d", broker))},
	}
}

// node is a store that runs on a file system.
type node struct {
	t      testing.TB
	fs     *vfs.MemFS
	db     *state.DB
	store  *Store
	cancel context.CancelFunc
	done   chan error
}

// openNode opens a store without running it.
func openNode(t testing.TB, fs *vfs.MemFS) *node {
	t.Helper()
	n := &node{t: t, fs: fs, db: openState(t, fs), done: make(chan error, 1)}
	store, err := Open(Options{FS: fs, Dir: "raft", NodeID: 1, State: n.db, Logger: quiet()})
	if err != nil {
		closeState(t, n.db)
		t.Fatal(err)
	}
	n.store = store
	return n
}

func (n *node) run() {
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() { n.done <- n.store.Run(ctx) }()
}

// startNode opens and runs a store and waits until it is ready.
func startNode(t testing.TB, fs *vfs.MemFS) *node {
	t.Helper()
	n := openNode(t, fs)
	n.run()
	if err := n.store.WaitReady(context.Background()); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) propose(cmd command.Command) any {
	n.t.Helper()
	result, err := n.store.Propose(context.Background(), cmd)
	if err != nil {
		n.t.Fatalf("%s: %v", cmd.Type(), err)
	}
	return result
}

// stop ends the run and closes both databases.
func (n *node) stop() {
	n.t.Helper()
	if n.cancel != nil {
		n.cancel()
		if err := <-n.done; err != nil {
			n.t.Errorf("run: %v", err)
		}
	}
	n.close()
}

func (n *node) close() {
	n.t.Helper()
	if err := n.store.Close(); err != nil {
		n.t.Error(err)
	}
	closeState(n.t, n.db)
}

// powerCut gives what would be left of the disk if the power failed now.
func (n *node) powerCut(rng *rand.Rand) *vfs.MemFS {
	return n.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
}

// rewriting tells whether golden files are to be written anew. The flag is that of the data-driven tests.
func rewriting() bool {
	rewrite := flag.Lookup("rewrite")
	return rewrite != nil && rewrite.Value.String() == "true"
}
