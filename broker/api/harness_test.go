package api

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/metastore"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/controller"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testBroker kafka.BrokerID = 7

// testNode is everything below the handlers, on file systems in memory: a metastore, logs and replicas. Only the
// object store and the sockets are missing.
type testNode struct {
	t        *testing.T
	handlers *Handlers
	meta     *metastore.Store
	logs     *storage.Manager
	replicas *replica.Manager
	registry *prometheus.Registry
	remote   *fakeRemote
	conn     *wire.Conn
}

func newTestNode(t *testing.T, static map[string]string) *testNode {
	t.Helper()
	return newTestNodeWith(t, static, storage.FlushGroup)
}

func newTestNodeWith(t *testing.T, static map[string]string, policy storage.FlushPolicy) *testNode {
	t.Helper()
	return newTestNodeOn(t, vfs.NewMem(), static, policy)
}

func newTestNodeOn(t *testing.T, files vfs.FS, static map[string]string, policy storage.FlushPolicy) *testNode {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	n := &testNode{t: t, remote: &fakeRemote{}}
	pebble := pebblevfs.NewMem()
	db := must(state.Open(state.Options{FS: pebble, Dir: "state", Logger: logger, OnFatal: func(err error) { t.Error(err) }}))
	n.meta = must(metastore.Open(metastore.Options{FS: pebble, Dir: "raft", NodeID: testBroker, State: db, Logger: logger}))
	ctx, stop := context.WithCancel(context.Background())
	var running []chan error
	run := func(part func(context.Context) error) {
		done := make(chan error, 1)
		running = append(running, done)
		go func() { done <- part(ctx) }()
	}
	run(n.meta.Run)
	check(t, n.meta.WaitReady(ctx))
	must(n.meta.Propose(ctx, command.InitCluster{ClusterID: kafka.UUID{1}}))
	check(t, vfs.MkdirAllDurable(files, "log"))
	n.logs = must(storage.NewManager(storage.ManagerOptions{
		FS: files, Dirs: []storage.Directory{{Path: "log"}}, Owner: storage.Owner{ClusterID: kafka.UUID{1}, NodeID: testBroker},
		Store: db.Space(state.SpaceStorage), Logger: logger, Policy: policy,
	}))
	must(n.logs.Load(ctx, func(kafka.TopicPartition, kafka.TopicID) (storage.Config, bool) { return storage.Config{}, false }))
	run(n.logs.Run)
	layers := func(img *image.Image) config.BrokerLayers {
		return config.BrokerLayers{
			Dynamic: img.BrokerConfig(strconv.Itoa(int(testBroker))), DynamicDefault: img.BrokerConfig(""),
			Static: func(name string) (string, bool) {
				value, explicit := static[name]
				return value, explicit
			},
		}
	}
	n.registry = prometheus.NewRegistry()
	n.replicas = replica.NewManager(replica.Options{
		Registerer: n.registry, MaxPartitionSeries: 10,
		BrokerID: testBroker, Logs: n.logs, Remote: n.remote, Logger: logger,
		FlushPolicy: policy, RemoteFetchMaxWait: aSecond, Layers: layers,
	})
	run(n.replicas.Run)
	n.meta.Watch(n.replicas.Apply)
	must(n.meta.Propose(ctx, command.RegisterBroker{
		ID: testBroker, Directories: []kafka.UUID{n.logs.Directories()[0].ID},
		Listeners: []command.Endpoint{{Name: "PLAINTEXT", Protocol: "PLAINTEXT"}},
	}))
	ids := txn.NewProducerIDs(func(ctx context.Context) (int64, int64, error) {
		block, err := n.meta.Propose(ctx, command.AllocateProducerIDs{Broker: testBroker, Count: 10})
		if err != nil {
			return 0, 0, err
		}
		return block.(command.ProducerIDBlock).First, block.(command.ProducerIDBlock).End, nil
	})
	n.handlers = New(Options{
		Logger: logger, Metadata: n.meta, Replicas: n.replicas, Placement: controller.Placement{},
		ProducerIDs: ids,
		Groups:      group.New(group.Options{Logger: logger}), // it leads nothing
		Transactions: txn.New(txn.Options{ // nor does it
			Logger: logger, ProducerIDs: ids, Config: txn.Config{MaxTimeout: time.Minute},
		}),
		InternalTopics: map[string]InternalTopic{
			kafka.GroupMetadataTopic: {Partitions: 5, ReplicationFactor: 3, Configs: map[string]string{
				"cleanup.policy": "compact", "compression.type": "producer",
			}},
			kafka.TransactionStateTopic: {Partitions: 5, ReplicationFactor: 3, MinInsyncReplicas: 2, Configs: map[string]string{
				"cleanup.policy": "compact", "compression.type": "uncompressed",
			}},
		},
		BrokerID: testBroker, Layers: layers, DefaultPartitions: 2, DefaultReplicationFactor: 1,
		LogDirectories: func() []LogDirectory {
			dir := n.logs.Directories()[0]
			return []LogDirectory{{ID: dir.ID, Path: dir.Path, TotalBytes: 456, UsableBytes: 123}}
		},
		Quorum: func() (QuorumState, error) {
			quorum, err := n.meta.Quorum()
			return QuorumState{LeaderEpoch: int64(quorum.Term), LastIndex: int64(quorum.Index)}, err
		},
		DeleteTopicEnable: true, FetchMaxBytes: 50 << 20, FetchSessionSlots: 3, RemoteListOffsetsTimeout: aSecond,
		VerifyTransactions: func() bool { return true },
	})
	n.conn = &wire.Conn{
		Listener: "PLAINTEXT", Context: ctx,
		Local: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092}, Remote: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5},
	}
	t.Cleanup(func() {
		stop()
		for _, done := range running {
			check(t, <-done)
		}
		check(t, n.logs.Close())
		check(t, n.meta.Close())
		check(t, db.Close())
	})
	return n
}

func aSecond() time.Duration { return time.Second }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// send encodes a request, has it served, waits, and returns the reply.
func (n *testNode) send(req kmsg.Request, version int16) wire.Reply {
	req.SetVersion(version)
	return n.handlers.Dispatch(n.conn.Context, &wire.Request{
		Key: req.Key(), Version: version, CorrelationID: 42, Body: req.AppendTo(nil), Conn: n.conn,
	})
}

// flatten is the bytes that a response puts on the wire.
func flatten(t *testing.T, response *wire.Response) []byte {
	t.Helper()
	var flat []byte
	for _, chunk := range response.Chunks() {
		if size := chunk.Region.Size(); size > 0 {
			part := make([]byte, size)
			_, err := chunk.Region.ReadAt(part, 0)
			check(t, err)
			flat = append(flat, part...)
			continue
		}
		flat = append(flat, chunk.Bytes...)
	}
	response.Release()
	return flat
}

// ask sends a request and decodes the answer.
func ask[Resp kmsg.Response](n *testNode, req kmsg.Request, version int16) Resp {
	n.t.Helper()
	return decodeReply[Resp](n, req, n.send(req, version), version)
}

func decodeReply[Resp kmsg.Response](n *testNode, req kmsg.Request, reply wire.Reply, version int16) Resp {
	n.t.Helper()
	if reply.Wait != nil {
		<-reply.Wait
	}
	response := reply.Response
	if reply.Finish != nil {
		response = reply.Finish()
	}
	if response == nil {
		n.t.Fatalf("no answer to %s: %+v", kmsg.NameForKey(req.Key()), reply)
	}
	flat := flatten(n.t, response)
	resp := req.ResponseKind()
	resp.SetVersion(version)
	header := 8
	if resp.IsFlexible() && resp.Key() != wire.KeyApiVersions {
		header++
	}
	if err := resp.ReadFrom(flat[header:]); err != nil {
		n.t.Fatalf("answer to %s v%d cannot be read: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp.(Resp)
}

// createTopic makes a topic and returns its id.
func (n *testNode) createTopic(name string, partitions int32, configs ...string) kafka.TopicID {
	n.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(configs); i += 2 {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: configs[i], Value: &configs[i+1]})
	}
	req.Topics = append(req.Topics, topic)
	answer := ask[*kmsg.CreateTopicsResponse](n, req, 7).Topics[0]
	if answer.ErrorCode != 0 {
		n.t.Fatalf("create %s: %v %v", name, kafka.Errno(answer.ErrorCode), deref(answer.ErrorMessage))
	}
	return answer.TopicID
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// batch makes a batch of records with the given values, timestamps 1000, 1001, ….
func batch(values ...string) []byte {
	b := record.NewBuilder(record.PlainProducer())
	for i, value := range values {
		b.Append(1000+int64(i), []byte("k"), []byte(value))
	}
	return b.Build()
}

// produceRequest is a request for one partition.
func produceRequest(topic string, id kafka.TopicID, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, id
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func (n *testNode) produce(topic string, partition int32, values ...string) int64 {
	n.t.Helper()
	resp := ask[*kmsg.ProduceResponse](n, produceRequest(topic, kafka.TopicID{}, partition, -1, batch(values...)), 9)
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		n.t.Fatalf("produce: %v %s", kafka.Errno(p.ErrorCode), deref(p.ErrorMessage))
	}
	return p.BaseOffset
}

// fakeRemote is an object store that has nothing; tests give it records.
type fakeRemote struct {
	start    func(done func(storage.RemoteReadResult, error)) // if set, the read ends when the test calls done
	read     func(req storage.RemoteReadRequest) (storage.RemoteReadResult, error)
	byTime   storage.TimestampOffset
	found    bool
	advanced []int64
}

func (f *fakeRemote) StartRead(_ context.Context, _ kafka.TopicIDPartition, req storage.RemoteReadRequest,
	done func(storage.RemoteReadResult, error),
) {
	if f.start != nil {
		f.start(done)
		return
	}
	done(f.read(req))
}

func (f *fakeRemote) OffsetForTimestamp(context.Context, kafka.TopicIDPartition, int64) (
	storage.TimestampOffset, bool, error,
) {
	return f.byTime, f.found, nil
}

func (f *fakeRemote) MaxTimestamp(context.Context, kafka.TopicIDPartition) (storage.TimestampOffset, bool, error) {
	return f.byTime, f.found, nil
}

func (f *fakeRemote) AdvanceStart(_ context.Context, _ kafka.TopicIDPartition, offset int64) error {
	f.advanced = append(f.advanced, offset)
	return nil
}

func (n *testNode) topic(name string) *image.Topic {
	n.t.Helper()
	topic, ok := n.meta.Image().Topic(name)
	if !ok {
		n.t.Fatalf("there is no topic %s", name)
	}
	return topic
}

// bumpEpoch lets every partition begin a new leader epoch.
func (n *testNode) bumpEpoch() {
	n.t.Helper()
	_, err := n.meta.Propose(n.conn.Context, command.BumpLeaderEpochs{Broker: testBroker})
	check(n.t, err)
}
