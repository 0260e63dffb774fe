package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/budget"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
)

// Metadata says which objects there ought to be, and which may be.
type Metadata interface {
	Image() *image.Image
	Garbage() ([]command.Garbage, error)
	// Reserved lists the upload ids of a partition under which there may be an object that is not committed yet.
	Reserved(tp kafka.TopicIDPartition) ([]kafka.UUID, error)
}

// Store keeps where the Verifier is through a restart.
type Store interface {
	Get(key []byte) ([]byte, error)
	Set(key, value []byte) error
}

// Options are what a Verifier is made of.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	BrokerID   kafka.BrokerID
	ClusterID  kafka.UUID
	Bucket     objectstore.Bucket
	Metadata   Metadata
	Manifests  *manifest.Manifests
	Store      Store
	// ScrubInterval is the time from the end of one verification of everything to the begin of the next; 0: never.
	ScrubInterval time.Duration
	ScrubDepth    Depth
	// BytesPerSecond bounds what is read of objects; 0 is no bound.
	BytesPerSecond int64
}

// Depth is how closely objects are looked at.
type Depth string

// The depths. Each does what the one before it does, too.
const (
	Listing Depth = "listing" // each object is there and has its size; what is there is known
	Tails   Depth = "tails"   // the tail of each segment fits the manifest: a request for each
	Data    Depth = "data"    // every byte is read, and every checksum is right
)

// Depths lists them.
func Depths() []Depth { return []Depth{Listing, Tails, Data} }

// Kind is what is wrong with an object.
type Kind string

// The kinds of findings.
const (
	Missing  Kind = "missing"  // the manifest has it, the bucket has not
	Size     Kind = "size"     // it has another size than the manifest says
	Damaged  Kind = "damaged"  // its bytes are not what was put
	Unknown  Kind = "unknown"  // nothing refers to it, and nobody is about to delete it
	Manifest Kind = "manifest" // a sealed part of the manifest cannot be read: what it lists is not looked at
)

// Kinds lists them.
func Kinds() []Kind { return []Kind{Missing, Size, Damaged, Unknown, Manifest} }

// Finding is one thing that is wrong.
type Finding struct {
	Kind       Kind
	Topic      string
	Partition  int32
	BaseOffset int64
	EndOffset  int64
	Key        string
	Detail     string
}

// Request is what to verify.
type Request struct {
	Topics []string // none: all that are tiered
	Depth  Depth
}

// maxFindings is how many findings are kept in full; all are counted.
const maxFindings = 1000

// Progress is how far a verification is. It is kept in the state database.
type Progress struct {
	Request
	Scrub      bool // nobody has asked for it: it is done once in a while
	Running    bool
	Partitions int // to verify
	Verified   int // of them
	Objects    int64
	Bytes      int64
	Found      map[Kind]int64
	Findings   []Finding
	StartedAt  int64 // Unix ms
	EndedAt    int64 // Unix ms; 0 while it runs
	Err        string

	// Where it is: what comes before this topic, partition and offset is done.

	Topic     kafka.TopicID
	Partition int32
	Offset    int64
}

// ErrBusy says that a verification that somebody has asked for is under way.
var ErrBusy = errors.New("a verification is under way already: see `firn tier verify --status`")

// Verifier verifies the bucket. Its methods may be called concurrently.
type Verifier struct {
	options Options
	metrics metrics
	budget  *budget.Bytes
	wake    chan struct{} // has room for one: there may be something new to do

	mu       sync.Mutex // guards the fields below
	progress Progress
	stop     context.CancelFunc // ends the verification under way; nil if there is none
}

// New makes a Verifier.
func New(options Options) *Verifier {
	return &Verifier{
		options: options, metrics: newMetrics(options.Registerer), wake: make(chan struct{}, 1),
		budget: budget.New(float64(options.BytesPerSecond)),
	}
}

// Start begins a verification. It takes the place of a scrub that is under way, and not of one that was asked for.
func (v *Verifier) Start(request Request) error {
	if !slices.Contains(Depths(), request.Depth) {
		return fmt.Errorf("there is no depth %q: it is one of %v", request.Depth, Depths())
	}
	img := v.options.Metadata.Image()
	for _, name := range request.Topics {
		if topic, found := img.Topic(name); !found || !tiered(topic) {
			return fmt.Errorf("topic %s is not tiered here: %w", name, kafka.UnknownTopicOrPartition)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.progress.Running && !v.progress.Scrub {
		return ErrBusy
	}
	v.begin(Progress{Request: request})
	return nil
}

// Stop ends the verification under way, if there is one.
func (v *Verifier) Stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.progress.Running {
		return
	}
	v.progress.Running, v.progress.EndedAt, v.progress.Err = false, time.Now().UnixMilli(), "it was stopped"
	v.interrupt()
}

// begin needs mu.
func (v *Verifier) begin(next Progress) {
	next.Running, next.StartedAt, next.Found = true, time.Now().UnixMilli(), map[Kind]int64{}
	v.progress = next
	v.interrupt()
}

// interrupt has Run look at what it should do; it needs mu.
func (v *Verifier) interrupt() {
	if v.stop != nil {
		v.stop()
	}
	select {
	case v.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Progress tells how far the verification under way is, or how the last one went.
func (v *Verifier) Progress() Progress {
	v.mu.Lock()
	defer v.mu.Unlock()
	shown := v.progress
	shown.Findings = slices.Clone(shown.Findings)
	shown.Found = map[Kind]int64{}
	for kind, count := range v.progress.Found {
		shown.Found[kind] = count
	}
	return shown
}

// progressKey is where Progress is in the state database.
var progressKey = []byte("progress")

// retryAfter is how long a verification waits that could not go on.
const retryAfter = 30 * time.Second

// Run verifies until ctx ends. A verification that a stop has interrupted goes on where it was.
func (v *Verifier) Run(ctx context.Context) {
	v.load()
	for ctx.Err() == nil {
		wait := v.step(ctx)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-v.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// step does what there is to do, and tells when to look again.
func (v *Verifier) step(ctx context.Context) time.Duration {
	if v.options.Metadata.Image().Controller != v.options.BrokerID {
		return retryAfter
	}
	v.mu.Lock()
	if !v.progress.Running {
		if wait := v.untilScrub(); wait > 0 {
			v.mu.Unlock()
			return wait
		}
		v.begin(Progress{Request: Request{Depth: v.options.ScrubDepth}, Scrub: true})
	}
	running, stop := context.WithCancel(ctx)
	v.stop = stop
	v.mu.Unlock()
	defer stop()
	err := v.verify(running)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stop = nil
	switch {
	case running.Err() != nil:
		return 0 // somebody wants something else, or this is the end
	case err != nil:
		v.progress.Err = err.Error()
		v.options.Logger.Warn("verifying the bucket cannot go on and is tried again", "err", err)
		v.save()
		return retryAfter
	}
	v.progress.Running, v.progress.EndedAt, v.progress.Err = false, time.Now().UnixMilli(), ""
	v.metrics.ended(v.progress)
	v.options.Logger.Info("the bucket was verified", "depth", string(v.progress.Depth), "objects", v.progress.Objects,
		"findings", len(v.progress.Findings))
	v.save()
	return 0
}

// never is how long to wait for a scrub that never comes.
const never = 24 * time.Hour

// untilScrub needs mu.
func (v *Verifier) untilScrub() time.Duration {
	if v.options.ScrubInterval <= 0 {
		return never
	}
	due := time.UnixMilli(v.progress.EndedAt).Add(v.options.ScrubInterval)
	if v.progress.EndedAt == 0 { // a new node has little to verify, and a restart must not begin with it
		v.progress.EndedAt = time.Now().UnixMilli()
		v.save()
		return v.options.ScrubInterval
	}
	return time.Until(due)
}

// load reads where the last run was. What cannot be read is begun anew: nothing depends on it.
func (v *Verifier) load() {
	v.mu.Lock()
	defer v.mu.Unlock()
	data, err := v.options.Store.Get(progressKey)
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &v.progress)
	}
	if err != nil {
		v.options.Logger.Warn("how far the verification of the bucket was is not known any more", "err", err)
		v.progress = Progress{}
	}
	if v.progress.Found == nil {
		v.progress.Found = map[Kind]int64{}
	}
	v.metrics.ended(v.progress)
}

// save needs mu. What it cannot write is done once more after a restart.
func (v *Verifier) save() {
	data, err := json.Marshal(v.progress)
	if err == nil {
		err = v.options.Store.Set(progressKey, data)
	}
	if err != nil {
		v.options.Logger.Warn("how far the verification of the bucket is cannot be noted", "err", err)
	}
}
