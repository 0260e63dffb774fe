package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// Metadata is the cluster's metadata as the handlers need it.
type Metadata interface {
	// Image is the newest metadata that this broker serves.
	Image() *image.Image
	// Propose commits a command and returns when every part of this broker has seen what it did.
	Propose(ctx context.Context, cmd command.Command) (any, error)
	// ElapsedMs is the cluster's running time, which commands carry in place of a clock.
	ElapsedMs() int64
}

// Options are what Handlers are made of. Settings are parsed once, at the edge.
type Options struct {
	Logger    *slog.Logger
	Metadata  Metadata
	Replicas  *replica.Manager
	Placement Placement
	// ProducerIDs hands out ids for InitProducerId.
	ProducerIDs *txn.ProducerIDs

	// Groups coordinates the groups whose journals this broker leads.
	Groups *group.Coordinator
	// Transactions serves the transactional ids whose journals this broker leads.
	Transactions *txn.Coordinator

	BrokerID kafka.BrokerID
	// InternalTopics are the coordinators' topics by name, as they are made at their first use.
	InternalTopics map[string]InternalTopic
	// LogDirectories lists the log directories, those that have failed included.
	LogDirectories func() []LogDirectory
	// Quorum tells where the metadata quorum stands.
	Quorum func() (QuorumState, error)
	// Layers are the broker's settings with their origin, those altered at run time from the image included.
	Layers func(*image.Image) config.BrokerLayers

	DefaultPartitions        int32                // num.partitions
	DefaultReplicationFactor int16                // default.replication.factor
	DeleteTopicEnable        bool                 // delete.topic.enable
	AutoCreateTopics         bool                 // auto.create.topics.enable
	RemoteStorageDefault     bool                 // firn.remote.storage.default
	FetchMaxBytes            int                  // fetch.max.bytes
	FetchSessionSlots        int                  // max.incremental.fetch.session.cache.slots
	RemoteListOffsetsTimeout func() time.Duration // remote.list.offsets.request.timeout.ms
	VerifyTransactions       func() bool          // transaction.partition.verification.enable
}

// Handlers serve the APIs of one broker.
type Handlers struct {
	options  Options
	sessions *sessionCache
	joiner   transactionJoiner // options.Transactions, unless that is nil
	calls    fetchCalls
	routes   map[int16]route

	failureLogged atomic.Int64 // when a failure was last logged, in Unix nanoseconds
}

// New makes the handlers of one broker.
func New(options Options) *Handlers {
	h := &Handlers{options: options, sessions: newSessionCache(options.FetchSessionSlots)}
	if options.Transactions != nil {
		h.joiner = options.Transactions
	}
	h.routes = h.table()
	return h
}

// Dispatch serves one request. It has the form that the server calls.
func (h *Handlers) Dispatch(ctx context.Context, req *wire.Request) wire.Reply {
	return h.routes[req.Key](ctx, req)
}

// route is one API. The context is the server's; what waits for one client waits under the connection's.
type route func(ctx context.Context, req *wire.Request) wire.Reply

// failureEvery keeps a disk or a bucket that is away, on which every poll of every client fails, from filling the log.
const failureEvery = time.Second

// logFailure logs what failed for no fault of the client's, unless something else did a moment ago.
func (h *Handlers) logFailure(message string, err error) {
	now, last := time.Now().UnixNano(), h.failureLogged.Load()
	if now-last >= int64(failureEvery) && h.failureLogged.CompareAndSwap(last, now) {
		h.options.Logger.Error(message, "err", err)
	}
}

// now answers at once with a kmsg body.
func now(req *wire.Request, body kmsg.Response) wire.Reply {
	return wire.Reply{Response: wire.EncodeResponse(req.Version, req.CorrelationID, body)}
}

// later answers with a kmsg body that finish makes in the waiting phase, where it may ask the metastore or the object
// store. It must not touch the request's frame.
func later(req *wire.Request, finish func(ctx context.Context) kmsg.Response) wire.Reply {
	version, correlationID, ctx := req.Version, req.CorrelationID, req.Conn.Context
	return wire.Reply{Finish: func() *wire.Response {
		return wire.EncodeResponse(version, correlationID, finish(ctx))
	}}
}

// malformed closes the connection of a peer that does not speak the protocol: there is no answer to what cannot be
// read. The server says so, at a rate that such peers cannot raise.
func malformed(err error) wire.Reply { return wire.Reply{Close: err} }

// decode reads a kmsg body within its bounds.
func decode[T kmsg.Request](req *wire.Request, into T) (T, error) {
	into.SetVersion(req.Version)
	return into, wire.BoundedDecode(req, into)
}

// fail fills the error fields of an answer: the code, and in words what was wrong and what to do. A success has no
// message; an error that is only a code keeps the client's own words for it.
func fail(err error) (code int16, message *string) {
	errno := kafka.CodeOf(err)
	if errno == kafka.None {
		return 0, nil
	}
	var bare kafka.Errno
	if errors.As(err, &bare) && err == error(bare) {
		return int16(errno), nil
	}
	text := err.Error()
	return int16(errno), &text
}

// unknownTopicError is the error of a request that names a topic which is not there: a name that no topic can have is
// told apart.
func unknownTopicError(name string) error {
	if err := image.CheckTopicName(name); err != nil {
		return err
	}
	return fmt.Errorf("there is no topic %q: %w", name, kafka.UnknownTopicOrPartition)
}

// within bounds what a request may take in the waiting phase by the client's own timeout.
func within(ctx context.Context, timeoutMs int32) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(time.Duration(timeoutMs)*time.Millisecond, minTimeout))
}

// minTimeout keeps a client that sends a timeout of 0 from losing every race against its own request.
const minTimeout = 100 * time.Millisecond

// metadataTimeout bounds a commit of the metastore for requests that bring no timeout of their own.
const metadataTimeout = 30 * time.Second
