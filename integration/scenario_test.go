package integration

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/firnlog/firn"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/network"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/objectstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	brokerHost    = "broker"
	clientHost    = "client"
	brokerAddress = "broker:9092"
	httpAddress   = "broker:9644"
	dataDir       = "data"
)

// disks are what outlives a node: its logs, its metadata, and the bucket.
type disks struct {
	gate   sync.RWMutex // held for writing, the logs stand still
	files  *vfs.Mem
	pebble *pebblevfs.MemFS
	bucket *objectstore.Memory

	locking sync.Mutex // see pebbleDisk
}

func newDisks() *disks {
	return &disks{files: vfs.NewMem(), pebble: pebblevfs.NewCrashableMem(), bucket: objectstore.NewMemory()}
}

// loss says what the end of a node that was not stopped leaves on its disks.
type loss int

const (
	loseNothing       loss = iota // the process was killed, the machine goes on
	loseSome                      // the power went: what was not synced is there, gone or torn
	loseAllUnsynced               // the power went, and everything that was not synced is gone
	numberOfLossKinds      = int(loseAllUnsynced) + 1

	loseAnything loss = -1 // one of those, by chance
)

func (l loss) String() string {
	return [...]string{"killed", "power cut", "power cut that loses all it can"}[l]
}

// clone is the disks as they are left at this instant, for a node to start on; the originals go on. The bucket is
// elsewhere: it loses nothing.
func (d *disks) clone(what loss, rng *rand.Rand) *disks {
	d.gate.Lock()
	defer d.gate.Unlock()
	left := &disks{bucket: d.bucket.Clone()}
	switch what {
	case loseNothing:
		left.pebble = d.clonePebble(100, rng)
		left.files = d.files.KillClone()
	case loseSome:
		left.pebble = d.clonePebble(rng.IntN(101), rng)
		left.files = d.files.CrashClone(rng)
	case loseAllUnsynced:
		left.pebble = d.clonePebble(0, rng)
		left.files = d.files.CrashCloneStrict()
	}
	return left
}

// clonePebble keeps a share of what was not synced. Pebble makes a manifest, then the marker that names it, and syncs
// their folder once: it counts on a journaling file system, which keeps the order of such changes. The clone does not,
// and where that shows, all changes are kept instead.
func (d *disks) clonePebble(percent int, rng *rand.Rand) *pebblevfs.MemFS {
	d.locking.Lock()
	left := d.pebble.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
	d.locking.Unlock()
	for _, database := range []string{"state", "raft"} {
		found, err := pebble.Peek(path.Join(dataDir, "metadata", database), left)
		if err != nil || !found.Exists {
			continue
		}
		if _, err := left.Stat(found.ManifestFilename); err != nil {
			return d.clonePebble(100, rng)
		}
	}
	return left
}

// pebbleDisk is a file system in memory on which a directory may be locked while it is cloned: Pebble's own waits for ever
// then, as Lock takes the lock that CrashClone waits for a second time.
type pebbleDisk struct {
	*pebblevfs.MemFS
	locking *sync.Mutex
}

func (d pebbleDisk) Lock(name string) (io.Closer, error) {
	d.locking.Lock()
	defer d.locking.Unlock()
	return d.MemFS.Lock(name)
}

// scenario is one broker in fake time, with a client on another host of a network in memory. The broker may be stopped,
// crashed and started again; the clients of the scenario live on.
type scenario struct {
	t        *testing.T
	seed     uint64
	random   *rand.Rand
	settings []string
	host     string
	network  *network.Memory
	disks    *disks
	bucket   *objectstore.Faulty // around the disks' bucket, of the node that runs
	node     *firn.Node
	// onFile and onBucket, when set before a start, see each operation of the node first. They may call powerOff.
	onFile   func(op vfs.Op)
	onPebble func(op errorfs.Op)
	onBucket func(call objectstore.Call)
	// wrapBucket, when set before a start, stands before the bucket.
	wrapBucket func(objectstore.Bucket) objectstore.Bucket

	mu   sync.Mutex // guards the fields below
	fate *rand.Rand // decides on crashes; apart from random, since they come from any goroutine
	left *disks     // what powerOff has left
}

// run plays a scenario in a bubble of fake time: a broker is running when body begins, and is stopped cleanly at the
// end. The seed decides on what the scenario leaves to chance.
func run(t *testing.T, seed uint64, settings []string, body func(s *scenario)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scenario{
			t: t, seed: seed, settings: settings, host: brokerHost,
			random: rand.New(rand.NewPCG(seed, 0)), fate: rand.New(rand.NewPCG(seed, 1)),
			network: network.NewMemory(), disks: newDisks(),
		}
		// Where a round trip takes no time, a client that asks again and again keeps time from passing at all.
		s.network.Delay(brokerHost, clientHost, 200*time.Microsecond)
		s.start()
		t.Cleanup(func() {
			if s.node != nil {
				s.stop()
			}
		})
		body(s)
	})
}

// twin is a broker of its own on the same disks, to be started on another host.
func (s *scenario) twin(hostName string) *scenario {
	return &scenario{
		t: s.t, random: s.random, network: s.network, disks: s.disks, host: hostName,
		settings: append(slices.Clone(s.settings), "listeners=PLAINTEXT://"+hostName+":9092",
			"firn.http.listener="+hostName+":9644"),
	}
}

// config is the node's: everything under dataDir, in fewer bytes than by default, since all of it is in memory.
func (s *scenario) config() firn.Config {
	s.t.Helper()
	settings := append([]string{
		"listeners=PLAINTEXT://" + brokerAddress, "firn.http.listener=" + httpAddress, "firn.data.dir=" + dataDir,
		"log.retention.check.interval.ms=1000", "remote.log.manager.task.interval.ms=1000",
		"firn.log.dirs.reserve.bytes=65536",
	}, s.settings...)
	return try(firn.LoadConfig(firn.Sources{Set: settings})).orFail(s.t)
}

// start starts the broker on the disks.
func (s *scenario) start() {
	s.t.Helper()
	s.node = try(s.tryStart()).orFail(s.t)
}

func (s *scenario) tryStart() (*firn.Node, error) {
	s.mu.Lock()
	s.left = nil
	s.mu.Unlock()
	files := vfs.NewGated(s.disks.files, &s.disks.gate)
	if hook := s.onFile; hook != nil {
		files = vfs.NewFaulty(files, func(op vfs.Op) error {
			hook(op)
			return nil
		})
	}
	s.bucket = objectstore.NewFaulty(s.disks.bucket, func(call objectstore.Call, _ objectstore.Fault) {
		if hook := s.onBucket; hook != nil {
			hook(call)
		}
	})
	bucket := objectstore.Bucket(s.bucket)
	if s.wrapBucket != nil {
		bucket = s.wrapBucket(bucket)
	}
	metadata := pebblevfs.FS(pebbleDisk{s.disks.pebble, &s.disks.locking})
	if hook := s.onPebble; hook != nil {
		metadata = errorfs.Wrap(metadata, errorfs.InjectorFunc(func(op errorfs.Op) error {
			hook(op)
			return nil
		}))
	}
	return firn.Start(s.context(), s.config(), firn.Dependencies{
		Logger: slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})),
		FS:     files, PebbleFS: metadata, Network: s.network.Host(s.host), Bucket: bucket,
	})
}

// stop stops the broker cleanly.
func (s *scenario) stop() {
	s.t.Helper()
	node := s.node
	s.node = nil
	must(s.t, node.Stop(s.context()))
}

// restart stops the broker cleanly and starts it again. If the power goes meanwhile it is a crash after all.
func (s *scenario) restart() {
	s.t.Helper()
	s.stop()
	if !s.isOff() {
		s.start()
	}
	s.revive()
}

// powerOff ends the node as seen from outside: nothing reaches a client any more, and the disks are left as they are at
// this instant. It may be called from within an operation of the node, and only the first call counts. Then crash.
func (s *scenario) powerOff(what loss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left != nil {
		return
	}
	// First the network: what was acknowledged until now must be on the disks, what comes later is never heard of.
	s.network.Partition(brokerHost, clientHost)
	if what == loseAnything {
		what = loss(s.fate.IntN(numberOfLossKinds))
	}
	s.left = s.disks.clone(what, s.fate)
	s.network.Disconnect(brokerHost, clientHost)
}

// crash ends the node, here unless powerOff did it before, and starts another on what the disks have left. The power
// may go again during the start.
func (s *scenario) crash(what loss) {
	s.t.Helper()
	s.powerOff(what)
	s.revive()
}

// revive starts the broker on what a power cut has left of its disks, as often as the power goes.
func (s *scenario) revive() {
	s.t.Helper()
	for s.isOff() {
		s.bury()
		s.start()
	}
}

func (s *scenario) isOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left != nil
}

// bury gets rid of a node that has crashed: what it still does on its disks nobody will ever see.
func (s *scenario) bury() {
	if node := s.node; node != nil {
		s.node = nil
		_ = node.Stop(s.context())
	}
	s.disks = s.left
	s.network.Heal(brokerHost, clientHost)
}

// context bounds one step of a scenario, in fake time.
func (s *scenario) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	s.t.Cleanup(cancel)
	return ctx
}

// client is a client on the client's host. It is closed at the end of the scenario.
func (s *scenario) client(options ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	client := try(kgo.NewClient(s.options(options...)...)).orFail(s.t)
	s.t.Cleanup(client.Close)
	return client
}

// options are those of a client on the client's host.
func (s *scenario) options(options ...kgo.Opt) []kgo.Opt {
	host := s.network.Host(clientHost)
	return append([]kgo.Opt{
		kgo.SeedBrokers(brokerAddress),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) { return host.Dial(ctx, address) }),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.WithDecompressor(decompressor{kgo.DefaultDecompressor()}),
		kgo.WithLogger(kgo.BasicLogger(s.t.Output(), kgo.LogLevelInfo, nil)),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}, options...)
}

// decompressor is the client's own but for zstd: a finalizer, which runs outside the bubble, would close the decoder,
// and that ends the program.
type decompressor struct{ kgo.Decompressor }

func (d decompressor) Decompress(data []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec != kgo.CodecZstd {
		return d.Decompressor.Decompress(data, codec)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return decoder.DecodeAll(data, nil)
}

func (s *scenario) admin() *kadm.Client {
	s.t.Helper()
	return kadm.NewClient(s.client())
}

// createTopic creates a topic with settings KEY=VALUE.
func (s *scenario) createTopic(name string, partitions int32, settings map[string]string) {
	s.t.Helper()
	values := make(map[string]*string, len(settings))
	for key, value := range settings {
		values[key] = &value
	}
	try(s.admin().CreateTopic(s.context(), partitions, 1, values, name)).orFail(s.t)
}

// leaderEpoch is the leader epoch that clients are told of.
func (s *scenario) leaderEpoch(topic string, partition int32) int32 {
	s.t.Helper()
	topics := try(s.admin().ListTopics(s.context(), topic)).orFail(s.t)
	must(s.t, topics.Error())
	return topics[topic].Partitions[partition].LeaderEpoch
}

// verifyLogs checks every checksum, record, offset and index of the broker's logs. The broker must be stopped, or idle.
func (s *scenario) verifyLogs() {
	s.t.Helper()
	for _, folder := range s.logFolders() {
		if strings.HasSuffix(folder, "-delete") {
			continue
		}
		report := try(storage.Verify(s.disks.files, path.Join(dataDir, "log", folder))).orFail(s.t)
		for _, problem := range report.Problems {
			s.t.Errorf("%+v", problem)
		}
	}
}

// localSegments are the base offsets' file names of the segments on local disk.
func (s *scenario) localSegments(topic string, partition int32) []string {
	s.t.Helper()
	names := try(s.disks.files.List(path.Join(dataDir, "log", fmt.Sprintf("%s-%d", topic, partition)))).orFail(s.t)
	return slices.DeleteFunc(names, func(name string) bool { return path.Ext(name) != ".log" })
}

// logFolders are the folders of partitions on local disk, deleted ones too.
func (s *scenario) logFolders() []string {
	s.t.Helper()
	dir := path.Join(dataDir, "log")
	return slices.DeleteFunc(try(s.disks.files.List(dir)).orFail(s.t), func(name string) bool {
		return !try(s.disks.files.Stat(path.Join(dir, name))).orFail(s.t).IsDir()
	})
}

// objects are the keys in the bucket of what belongs, or belonged, to topics.
func (s *scenario) objects() []string {
	s.t.Helper()
	var keys []string
	must(s.t, s.disks.bucket.List(s.context(), "", "", func(info objectstore.ObjectInfo) error {
		if !strings.Contains(info.Key, "/meta/") && !strings.HasSuffix(info.Key, "/claim") {
			keys = append(keys, info.Key)
		}
		return nil
	}))
	return keys
}

// sleep lets time pass, and then waits until nothing happens any more by itself.
func (s *scenario) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// eventually lets time pass until something has become true: seconds at first, then minutes.
func (s *scenario) eventually(what string, holds func() bool) {
	s.t.Helper()
	const patience = 2 * time.Hour
	for waited := time.Duration(0); waited < patience; {
		if synctest.Wait(); holds() {
			return
		}
		step := time.Second + waited/16
		time.Sleep(step)
		waited += step
	}
	s.t.Fatalf("for %v it did not come true that %s", patience, what)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// outcome is what a call has answered.
type outcome[T any] struct {
	value T
	err   error
}

func try[T any](value T, err error) outcome[T] { return outcome[T]{value, err} }

// orFail is the value, or the end of the test.
func (o outcome[T]) orFail(t testing.TB) T {
	t.Helper()
	must(t, o.err)
	return o.value
}
