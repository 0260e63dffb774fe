package firn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/broker/admin"
	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/server"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/compaction"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/network"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/metastore"
	"github.com/firnlog/firn/metastore/state"
	"github.com/firnlog/firn/retention"
	"github.com/firnlog/firn/tiering"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/compact"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/verify"
)

// Dependencies are what a node touches of the world around it. Tests replace them; the zero value is the real thing.
type Dependencies struct {
	Logger *slog.Logger
	// Registry takes the node's metrics; one node each.
	Registry *prometheus.Registry
	// FS holds the logs, and a directory bucket; PebbleFS the metadata.
	FS       vfs.FS
	PebbleFS pebblevfs.FS
	Network  network.Network
	// Bucket takes the place of what Config.ObjectStore names.
	Bucket objectstore.Bucket
}

func (d Dependencies) withDefaults() Dependencies {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Registry == nil {
		d.Registry = prometheus.NewRegistry()
	}
	if d.FS == nil {
		d.FS = vfs.OS()
	}
	if d.PebbleFS == nil {
		d.PebbleFS = pebblevfs.Default
	}
	if d.Network == nil {
		d.Network = network.TCP()
	}
	return d
}

// Node is one running broker.
type Node struct {
	config Config
	deps   Dependencies
	logger *slog.Logger

	ballast   *state.Ballast // nil if nothing is reserved
	state     *state.DB
	meta      *metastore.Store
	logs      *storage.Manager
	bucket    objectstore.Bucket
	verifier  *verify.Verifier
	rewriter  *compact.Rewriter
	tier      *tiering.Manager
	replicas  *replica.Manager
	retention *retention.Enforcer
	cleaner   *compaction.Cleaner
	server    *server.Server
	admin     *admin.Server

	claim         *checkpoint.Claim
	checkpoints   *checkpoint.Writer
	producerIDs   *txn.ProducerIDs
	groups        *group.Coordinator
	transactions  *txn.Coordinator
	coordinations []coordination         // set before the partitions are opened
	topics        atomic.Pointer[topics] // as groups see them
	ofGroups      atomic.Pointer[groupIntervals]

	restoring  bool       // a restore is making this node's directories
	newCluster kafka.UUID // id of the cluster, if it is a new one; zero draws it

	live atomic.Pointer[liveSettings] // what applySettings has last taken over; set once the metadata is open

	addresses   []string // of the listeners
	httpAddress string
	ready       atomic.Bool
	stopping    atomic.Bool

	// running are the parts that run, in the order in which they were started; closers what is given back at the end.
	// Only Start and Stop, which do not overlap, use them.
	running []*part
	closers []closer
	stop    sync.Once
	stopErr error

	directoryFailed chan struct{} // a token when a log directory has failed

	failed chan struct{} // closed when a part has failed
	fail   sync.Once
	cause  error // why, to be read after failed
}

// part is a part of the node that runs on a goroutine of its own until it is told to stop.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
}

// closer gives back something that does not run.
type closer struct {
	name  string
	close func() error
}

// Start makes each part of a broker, hands it what it needs and runs it. It returns when the broker serves; ctx bounds
// the start only. What was started is stopped again when something fails.
func Start(ctx context.Context, cfg Config, deps Dependencies) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := newNode(cfg, deps)
	if err := n.start(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

// newNode makes a node of which nothing is open yet.
func newNode(cfg Config, deps Dependencies) *Node {
	deps = deps.withDefaults()
	return &Node{
		config: cfg, deps: deps, logger: deps.Logger,
		directoryFailed: make(chan struct{}, 1), failed: make(chan struct{}),
	}
}

// start opens everything; what was opened is given back when something fails.
func (n *Node) start(ctx context.Context) error {
	begun := time.Now()
	for _, step := range []func(context.Context) error{
		n.openMetadata, n.openLogs, n.openTier, n.openReplicas, n.openServers,
	} {
		if err := step(ctx); err != nil {
			return errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
		}
	}
	if n.ballast != nil {
		n.run("ballast", n.ballast.Run) // only now, so that nobody has to wait for it
	}
	n.ready.Store(true)
	n.logger.Info("broker is ready", "node", n.config.NodeID, "kafka", strings.Join(n.addresses, ","),
		"http", n.httpAddress, "took", time.Since(begun).Round(time.Millisecond))
	return nil
}

// Addr is the HOST:PORT where clients connect: of the first listener, if there are several.
func (n *Node) Addr() string { return n.addresses[0] }

// Addrs are the HOST:PORT of all listeners, in the order of the configuration.
func (n *Node) Addrs() []string { return slices.Clone(n.addresses) }

// HTTPAddr is the HOST:PORT of metrics, health and the JSON API.
func (n *Node) HTTPAddr() string { return n.httpAddress }

// Failed is closed when a part has failed and the node must stop; Stop then returns why.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Ready says why the node cannot serve, or nil.
func (n *Node) Ready() error {
	select {
	case <-n.failed:
		return n.cause
	default:
	}
	if !n.ready.Load() {
		return errors.New("the node is starting or stopping")
	}
	return nil
}

// Stop stops the node cleanly: no new requests, those in flight finished, logs flushed, state checkpointed, locks
// released. It returns what failed, of the parts while they ran or of the stop itself. When ctx ends first it gives up
// and leaves the rest to the end of the process, which is then like a crash. A second call returns the same.
func (n *Node) Stop(ctx context.Context) error {
	n.stop.Do(func() {
		n.stopping.Store(true)
		n.ready.Store(false)
		if n.replicas != nil {
			n.replicas.Drain()
		}
		for _, c := range n.coordinations {
			c.runtime.Drain()
		}
		err := n.stopParts(ctx)
		if err == nil {
			err = n.closeAll()
		}
		n.fail.Do(func() {}) // from here on nothing can fail
		n.stopErr = errors.Join(n.cause, err)
	})
	return n.stopErr
}

// stopParts stops what runs, the last started first.
func (n *Node) stopParts(ctx context.Context) error {
	for i := len(n.running) - 1; i >= 0; i-- {
		p := n.running[i]
		p.cancel()
		select {
		case <-p.done:
		case <-ctx.Done():
			return fmt.Errorf("%s did not stop in time: %w", p.name, ctx.Err())
		}
	}
	return nil
}

// closeAll gives back what does not run, the last opened first.
func (n *Node) closeAll() error {
	var errs []error
	for i := len(n.closers) - 1; i >= 0; i-- {
		if err := n.closers[i].close(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", n.closers[i].name, err))
		}
	}
	return errors.Join(errs...)
}

// run starts a part. Its end before it was told to stop is the end of the node.
func (n *Node) run(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	n.running = append(n.running, p)
	go func() {
		defer close(p.done)
		err := run(ctx)
		if err == nil && ctx.Err() == nil {
			err = errors.New("it ended by itself")
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			n.failure(fmt.Errorf("%s: %w", name, err))
		}
	}()
}

// failure keeps the first failure and lets whoever waits for Failed know.
func (n *Node) failure(err error) {
	n.fail.Do(func() {
		n.logger.Error("the node must stop", "err", err)
		n.cause = err
		close(n.failed)
	})
}

// onClose registers what Stop gives back, after everything that was registered later.
func (n *Node) onClose(name string, fn func() error) {
	n.closers = append(n.closers, closer{name: name, close: fn})
}
