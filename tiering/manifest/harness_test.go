package manifest_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

var (
	cluster = kafka.UUID{0xc1}
	tp      = kafka.TopicIDPartition{ID: kafka.TopicID{0x70}, Partition: 2}
)

// failer is a test of Go's or of rapid's.
type failer interface {
	Helper()
	Fatal(args ...any)
}

// store plays the metastore and the leader of one partition over a bucket in memory.
type store struct {
	t        failer
	tier     image.TierState
	origins  []kafka.UUID
	items    []command.Item
	bucket   *objectstore.Memory
	registry *prometheus.Registry
	gets     int
	next     byte // of upload ids
}

func newStore(t failer) *store {
	return &store{t: t, bucket: objectstore.NewMemory(), registry: prometheus.NewRegistry()}
}

func (s *store) Image() *image.Image {
	topic := &image.Topic{ID: tp.ID, Name: "events", Partitions: make([]image.Partition, 3), Origins: s.origins}
	tier := s.tier
	topic.Partitions[tp.Partition].Tier = &tier
	return image.Empty().WithTopic(topic)
}

func (s *store) Items(asked kafka.TopicIDPartition) (*image.TierState, []command.Item, error) {
	if asked != tp {
		return nil, nil, nil
	}
	tier := s.tier
	return &tier, s.items, nil
}

// Get implements segment.Getter.
func (s *store) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	s.gets++
	return s.bucket.Get(ctx, key, offset, dst)
}

func (s *store) manifests(cacheBytes int64) *manifest.Manifests {
	return manifest.New(manifest.Options{
		Source: s, Bucket: s, ClusterID: cluster, CacheBytes: cacheBytes, Registerer: s.registry,
	})
}

// set gives the partition a log of these segments.
func (s *store) set(entries []command.SegmentEntry) {
	s.items = nil
	s.tier.Segments, s.tier.Bytes = 0, 0
	s.tier.Version++
	for _, entry := range entries {
		s.items = append(s.items, entry)
		s.tier.End = entry.EndOffset
	}
	if len(entries) > 0 {
		s.tier.Start = entries[0].BaseOffset
	}
	s.count(entries)
}

func (s *store) count(entries []command.SegmentEntry) {
	for _, entry := range entries {
		if entry.EndOffset > s.tier.Start {
			s.tier.Segments++
			s.tier.Bytes += entry.ObjectBytes
		}
	}
}

// seal seals what is due until nothing is.
func (s *store) seal(shape manifest.Shape) {
	for run := shape.Due(s.items); run != nil; run = shape.Due(s.items) {
		s.sealRun(run)
	}
}

func (s *store) sealRun(run []command.Item) {
	s.t.Helper()
	s.next++
	upload := kafka.UUID{0xee, s.next, byte(len(s.items) >> 8), byte(len(s.items))}
	key := segment.Key{ClusterID: cluster, Partition: tp, LeaderEpoch: 4, UploadID: upload}
	if len(s.origins) > 0 {
		key.ClusterID = s.origins[len(s.origins)-1]
	}
	data, reference := manifest.Seal(key, "events", max(len(s.origins)-1, 0), run)
	key = segment.KeyOfItem(key.ClusterID, tp, reference)
	err := s.bucket.Put(context.Background(), key.String(), bytes.NewReader(data), int64(len(data)), objectstore.PutOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var next []command.Item
	for _, item := range s.items {
		switch {
		case item == run[0]:
			next = append(next, reference)
		case item.Summary().BaseOffset < reference.BaseOffset || item.Summary().BaseOffset >= reference.EndOffset:
			next = append(next, item)
		}
	}
	s.items = next
	s.tier.Version++
}

func (s *store) tree(m *manifest.Manifests) *manifest.Tree {
	s.t.Helper()
	tree, err := m.Get(context.Background(), tp)
	if err != nil {
		s.t.Fatal(err)
	}
	return tree
}

// metric sums a metric up.
func (s *store) metric(name string) (sum float64) {
	s.t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, metric := range family.GetMetric() {
				sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// segments makes a run of segments of ten offsets each, a second apart.
func segments(count int) (entries []command.SegmentEntry) {
	for i := range int64(count) {
		entries = append(entries, command.SegmentEntry{
			BaseOffset: 10 * i, EndOffset: 10*i + 10, LeaderEpoch: 3, UploadID: uploadOf(i), DataBytes: 900,
			ObjectBytes: 1000, TailBytes: 100, MinTimestamp: 1000 * i, MaxTimestamp: 1000*i + 999, MaxTimestampOffset: 10*i + 9,
			FirstAppendedAt: 1000 * i, LastAppendedAt: 1000*i + 999,
		})
	}
	return entries
}

func uploadOf(i int64) (id kafka.UUID) {
	copy(id[:], fmt.Sprintf("%016d", i+1))
	return id
}
