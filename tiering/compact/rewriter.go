package compact

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"path"
	"time"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// Metadata is the cluster's metadata as a rewrite needs it.
type Metadata interface {
	Image() *image.Image
	Propose(ctx context.Context, cmd command.Command) (any, error)
	Items(tp kafka.TopicIDPartition) (*image.TierState, []command.Item, error)
	ElapsedMs() int64
}

// Options are what a Rewriter is made of.
type Options struct {
	Logger    *slog.Logger
	ClusterID kafka.UUID
	Bucket    objectstore.Bucket
	Metadata  Metadata
	Manifests *manifest.Manifests
	FS        vfs.FS
	Dir       string // for segments on their way: emptied by Prepare
	// LeaveBytes is what must stay free on the disk of Dir.
	LeaveBytes  int64
	Deadline    time.Duration // of one upload
	Reservation time.Duration // of an upload id; longer than Deadline
}

// Rewriter makes Logs. Its methods may be called concurrently.
type Rewriter struct{ options Options }

// New makes a Rewriter.
func New(options Options) *Rewriter { return &Rewriter{options: options} }

func newUploadID() (id kafka.UUID) {
	_, _ = rand.Read(id[:]) // never fails, as crypto/rand says
	return id
}

// Prepare makes the folder for segments on their way, and removes what a stop has left there.
func (r *Rewriter) Prepare() error {
	if err := r.options.FS.RemoveAll(r.options.Dir); err != nil {
		return fmt.Errorf("remove unfinished segments: %w", err)
	}
	if err := r.options.FS.MkdirAll(r.options.Dir); err != nil {
		return fmt.Errorf("make a folder for segments on their way: %w", err)
	}
	return nil
}

// Log is the remote part of a partition, for one pass of the cleaner.
type Log struct {
	*Rewriter
	tp    kafka.TopicIDPartition
	topic *image.Topic
	epoch kafka.LeaderEpoch
}

// Log gives the remote part of a partition that this broker leads in its present epoch.
func (r *Rewriter) Log(tp kafka.TopicIDPartition) (*Log, error) {
	img := r.options.Metadata.Image()
	topic, found := img.TopicByID(tp.ID)
	if !found {
		return nil, fmt.Errorf("compact %s: %w", tp, kafka.UnknownTopicID)
	}
	partition, found := img.PartitionByID(tp)
	if !found || partition.Tier == nil {
		return nil, fmt.Errorf("compact %s: %w", tp, command.ErrTierNotOpen)
	}
	return &Log{Rewriter: r, tp: tp, topic: topic, epoch: partition.Epoch}, nil
}

// lookTimeout bounds what only looks at the manifest: whoever picks what to compact must not wait for a store.
const lookTimeout = 5 * time.Second

// requestTimeout bounds one request of a pass, with all its retries.
const requestTimeout = time.Minute

// Segments lists the segments of the log, oldest first.
func (l *Log) Segments() ([]command.SegmentEntry, error) {
	all, err := l.segments()
	return all, told(err)
}

func (l *Log) segments() ([]command.SegmentEntry, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	tree, err := l.options.Manifests.Get(ctx, l.tp)
	if err != nil {
		return nil, err
	}
	var all []command.SegmentEntry
	for entry, err := range tree.Segments(ctx, tree.Start, tree.End) {
		if err != nil {
			return nil, fmt.Errorf("list what is remote of %s-%d: %w", l.topic.Name, l.tp.Partition, err)
		}
		all = append(all, entry)
	}
	return all, nil
}

// AbortedTransactions lists the aborted transactions that overlap [start, end), by their first offsets.
func (l *Log) AbortedTransactions(start, end int64) ([]storage.AbortedTransaction, error) {
	segments, err := l.Segments()
	if err != nil {
		return nil, err
	}
	seen := map[storage.AbortedTransaction]bool{}
	var all []storage.AbortedTransaction
	for _, entry := range segments {
		if entry.EndOffset <= start || entry.BaseOffset >= end || entry.Flags&command.HasAbortedTransactions == 0 {
			continue
		}
		tail, err := l.tail(entry)
		if err != nil {
			return nil, told(err)
		}
		for _, aborted := range tail.AbortedTransactions {
			one := storage.AbortedTransaction(aborted)
			if !seen[one] && one.FirstOffset < end && one.LastOffset >= start {
				seen[one] = true
				all = append(all, one)
			}
		}
	}
	sortByFirst(all)
	return all, nil
}

func (l *Log) key(item command.Item) string {
	return segment.KeyOfItem(l.topic.OriginID(l.options.ClusterID, item.Summary().Origin()), l.tp, item).String()
}

func (l *Log) tail(entry command.SegmentEntry) (*segment.Tail, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	return segment.ReadTail(ctx, l.options.Bucket, l.key(entry), entry.ObjectBytes, entry.TailBytes)
}

// find is the segment that begins at an offset.
func (l *Log) find(base int64) (command.SegmentEntry, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	tree, err := l.options.Manifests.Get(ctx, l.tp)
	if err != nil {
		return command.SegmentEntry{}, err
	}
	entry, found, err := tree.Find(ctx, base)
	if err == nil && (!found || entry.BaseOffset != base) {
		err = fmt.Errorf("segment %d: %w", base, storage.ErrSegmentsChanged)
	}
	return entry, err
}

// Open opens the segment with a base offset.
func (l *Log) Open(base int64) (*Source, error) {
	entry, err := l.find(base)
	if err != nil {
		return nil, told(err)
	}
	tail, err := l.tail(entry)
	if err != nil {
		return nil, told(err)
	}
	unit := max(readBytes/tail.ChunkBytes*tail.ChunkBytes, tail.ChunkBytes)
	return &Source{bucket: l.options.Bucket, key: l.key(entry), tail: tail, unit: unit}, nil
}

// Replace begins a segment that takes the place of those in [firstBase, endBase).
func (l *Log) Replace(firstBase, endBase int64) (*Sink, error) {
	segments, err := l.Segments()
	if err != nil {
		return nil, err
	}
	s := &Sink{log: l, firstBase: firstBase, endBase: endBase}
	at := firstBase
	for _, entry := range segments {
		if entry.BaseOffset == at && entry.EndOffset <= endBase {
			s.old, at = append(s.old, entry), entry.EndOffset
		}
	}
	if at != endBase {
		return nil, fmt.Errorf("replace [%d, %d): %w", firstBase, endBase, storage.ErrSegmentsChanged)
	}
	s.path = path.Join(l.options.Dir, newUploadID().Hex())
	if s.file, err = l.options.FS.Create(s.path); err != nil {
		return nil, told(fmt.Errorf("begin a segment: %w", err))
	}
	return s, nil
}
