package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/objectstore"
)

// ErrNone says that a cluster has no checkpoint that can be read.
var ErrNone = errors.New("there is no checkpoint that can be read")

// maxRootBytes bounds what a key may make a reader allocate: a root names a hundred shards.
const maxRootBytes = 16 << 20

// readWorkers is how many objects are read at a time.
const readWorkers = 8

// Clusters lists the clusters that have anything in the bucket. It takes a request for each.
func Clusters(ctx context.Context, bucket objectstore.Bucket) ([]kafka.UUID, error) {
	var clusters []kafka.UUID
	for after := ""; ; {
		var next string
		err := bucket.List(ctx, "", after, func(object objectstore.ObjectInfo) error {
			next, _, _ = strings.Cut(object.Key, "/")
			return fs.SkipAll
		})
		if err != nil {
			return nil, fmt.Errorf("list the clusters: %w", err)
		}
		if next == "" {
			return clusters, nil
		}
		if id, err := parseHex(next); err == nil && id.Hex() == next {
			clusters = append(clusters, id)
		}
		after = next + "0" // the byte behind '/': everything in the folder comes before it
	}
}

// Read reads the newest checkpoint of a cluster that is whole. One that is damaged is passed over for the one before
// it, and said so in the result; ErrNone if none is left.
func Read(ctx context.Context, bucket objectstore.Bucket, cluster kafka.UUID) (*Checkpoint, error) {
	keys, err := listRoots(ctx, bucket, cluster)
	if err != nil {
		return nil, err
	}
	var damaged []string
	for _, object := range slices.Backward(keys) {
		read, err := readAt(ctx, bucket, cluster, object)
		var corrupt *CorruptError
		switch {
		case err == nil:
			read.Damaged = damaged
			return read, nil
		case errors.As(err, &corrupt):
			damaged = append(damaged, err.Error())
		default:
			return nil, fmt.Errorf("read the checkpoint of cluster %s: %w", cluster.Hex(), err)
		}
	}
	if len(damaged) > 0 {
		return nil, fmt.Errorf("cluster %s: %w: %s", cluster.Hex(), ErrNone, strings.Join(damaged, "; "))
	}
	return nil, fmt.Errorf("cluster %s: %w", cluster.Hex(), ErrNone)
}

// listRoots lists the roots of a cluster, oldest first.
func listRoots(ctx context.Context, bucket objectstore.Bucket, cluster kafka.UUID) ([]objectstore.ObjectInfo, error) {
	var roots []objectstore.ObjectInfo
	err := bucket.List(ctx, rootPrefix(cluster), "", func(object objectstore.ObjectInfo) error {
		if isRootKey(cluster, object.Key) {
			roots = append(roots, object)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the checkpoints of cluster %s: %w", cluster.Hex(), err)
	}
	return roots, nil
}

// NewestKey is the key of the newest checkpoint of a cluster, whether it can be read or not; "" if there is none. As
// long as it stays the same nobody has written one.
func NewestKey(ctx context.Context, bucket objectstore.Bucket, cluster kafka.UUID) (string, error) {
	roots, err := listRoots(ctx, bucket, cluster)
	if err != nil || len(roots) == 0 {
		return "", err
	}
	return roots[len(roots)-1].Key, nil
}

func readAt(ctx context.Context, bucket objectstore.Bucket, cluster kafka.UUID, object objectstore.ObjectInfo) (
	*Checkpoint, error,
) {
	root, err := readRoot(ctx, bucket, cluster, object)
	if err != nil {
		return nil, err
	}
	shards := make([]*shard, len(root.shards))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readWorkers)
	for i := range root.shards {
		group.Go(func() error {
			var err error
			shards[i], err = readShard(ctx, bucket, cluster, &root.shards[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	checkpoint := &Checkpoint{Root: *root}
	if err := checkpoint.join(shards); err != nil {
		return nil, &CorruptError{Key: object.Key, Err: err}
	}
	return checkpoint, nil
}

func readRoot(ctx context.Context, bucket objectstore.Bucket, cluster kafka.UUID, object objectstore.ObjectInfo) (
	*Root, error,
) {
	if object.Size > maxRootBytes {
		return nil, &CorruptError{Key: object.Key, Err: fmt.Errorf("%d bytes are too many", object.Size)}
	}
	data, err := get(ctx, bucket, object.Key, object.Size)
	if err != nil {
		return nil, err
	}
	root, err := parseRoot(data)
	if err == nil && (root.ClusterID != cluster || root.Key() != object.Key) {
		err = fmt.Errorf("it is %s", root.Key())
	}
	if err != nil {
		return nil, &CorruptError{Key: object.Key, Err: err}
	}
	return root, nil
}

func readShard(ctx context.Context, bucket objectstore.Bucket, cluster kafka.UUID, ref *shardRef) (*shard, error) {
	key := ref.key(cluster)
	data, err := get(ctx, bucket, key, ref.bytes)
	if err != nil {
		return nil, err
	}
	if got := crc32.Checksum(data, castagnoli); got != ref.checksum {
		return nil, &CorruptError{Key: key, Err: fmt.Errorf("the root says checksum %08x, the bytes have %08x",
			ref.checksum, got)}
	}
	read, err := parseShard(data, cluster, ref.shardID)
	if err != nil {
		return nil, &CorruptError{Key: key, Err: err}
	}
	return read, nil
}

// get reads a whole object. That it is gone or shorter is damage.
func get(ctx context.Context, bucket objectstore.Bucket, key string, size int64) ([]byte, error) {
	data := make([]byte, size)
	_, err := bucket.Get(ctx, key, 0, data)
	switch {
	case err == nil:
		return data, nil
	case errors.Is(err, objectstore.ErrNotFound) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &CorruptError{Key: key, Err: err}
	}
	return nil, err
}

// join puts the parts of all shards together.
func (c *Checkpoint) join(shards []*shard) error {
	byID := map[kafka.TopicID]*Topic{}
	total := 0
	for _, s := range shards {
		for _, record := range s.topics {
			topic := record.topic
			byID[topic.ID], total = &topic, total+record.partitions
			if record.partitions > maxPartitions {
				return fmt.Errorf("topic %s has %d partitions", topic.Name, record.partitions)
			}
			topic.Partitions = make([]Partition, record.partitions)
		}
	}
	for _, s := range shards {
		for _, record := range s.partitions {
			topic := byID[record.tp.ID]
			if topic == nil || record.tp.Partition < 0 || int(record.tp.Partition) >= len(topic.Partitions) {
				return fmt.Errorf("partition %s belongs to no topic", record.tp)
			}
			if err := record.partition.check(); err != nil {
				return fmt.Errorf("partition %d of topic %s: %w", record.tp.Partition, topic.Name, err)
			}
			topic.Partitions[record.tp.Partition] = record.partition
			total--
		}
		c.Groups = append(c.Groups, s.groups...)
	}
	if total != 0 {
		return fmt.Errorf("%d partitions are missing", total)
	}
	for _, topic := range byID {
		c.Topics = append(c.Topics, *topic)
	}
	slices.SortFunc(c.Topics, func(a, b Topic) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(c.Groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	c.index()
	return nil
}

// maxPartitions bounds what a number may make a reader allocate.
const maxPartitions = 1 << 20

// check tells whether the items form a run that ends at the remote end.
func (p *Partition) check() error {
	end := int64(-1)
	for _, item := range p.Items {
		if err := item.Validate(); err != nil {
			return err
		}
		s := item.Summary()
		if end >= 0 && s.BaseOffset != end {
			return fmt.Errorf("the manifest has a gap between offsets %d and %d", end, s.BaseOffset)
		}
		end = s.EndOffset
	}
	if end >= 0 && end != p.End || p.Start < 0 || p.Start > p.End {
		return fmt.Errorf("the manifest ends at offset %d, the log is remote in [%d, %d)", end, p.Start, p.End)
	}
	return nil
}
