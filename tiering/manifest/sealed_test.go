package manifest_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

func TestWhatIsSealedIsReadBack(t *testing.T) {
	var items []command.Item
	for _, entry := range segments(3) {
		items = append(items, entry)
	}
	key := segment.Key{ClusterID: cluster, Partition: tp, LeaderEpoch: 4, UploadID: kafka.UUID{9}}
	data, reference := manifest.Seal(key, "events", 3, items)
	sealed, err := manifest.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(sealed.Items, items) || sealed.Topic != "events" || reference.Origin() != 3 ||
		sealed.Key != segment.KeyOfItem(cluster, tp, reference) {
		t.Errorf("%+v, %+v", sealed, reference)
	}
	if !reference.Covers(items) || reference.Validate() != nil || reference.Level != command.LevelLeaf {
		t.Errorf("%+v", reference)
	}
	for position := range data {
		spoilt := slices.Clone(data)
		spoilt[position] ^= 0x40
		if _, err := manifest.Parse(spoilt); err == nil {
			t.Fatalf("byte %d is not looked at", position)
		}
	}
	for size := range data {
		if _, err := manifest.Parse(data[:size]); err == nil {
			t.Fatalf("it is read from %d of its %d bytes", size, len(data))
		}
	}
}

// TI-11: a damaged part is an error that says so, for those who need it, and is never taken for an empty one.
func TestTI11ADamagedPartOfAManifestIsAnErrorForWhoNeedsIt(t *testing.T) {
	random := make([]byte, 6000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(random)
	for name, content := range map[string][]byte{"random": random, "zero": make([]byte, 6000), "short": {1, 2, 3}} {
		s := newStore(t)
		s.set(segments(40))
		s.seal(manifest.Shape{Head: 20, Leaf: 10, Node: 10})
		damaged := segment.KeyOfItem(cluster, tp, s.items[0]).String()
		put := func(content []byte) {
			err := s.bucket.Put(t.Context(), damaged, bytes.NewReader(content), int64(len(content)), objectstore.PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		original := make([]byte, s.items[0].(command.Reference).SealedBytes)
		if _, err := s.bucket.Get(t.Context(), damaged, 0, original); err != nil {
			t.Fatal(err)
		}
		put(content)
		tree := s.tree(s.manifests(1 << 20))
		_, _, err := tree.Find(t.Context(), 5)
		if !manifest.IsCorrupt(err) || !errors.Is(err, kafka.KafkaStorageError) || !strings.Contains(err.Error(), damaged) {
			t.Errorf("%s: %v", name, err)
		}
		if s.metric("firn_tier_manifest_corrupt_total") != 1 {
			t.Errorf("%s: the metric says %v", name, s.metric("firn_tier_manifest_corrupt_total"))
		}
		if entry, ok, err := tree.Find(t.Context(), 105); err != nil || !ok || entry.BaseOffset != 100 {
			t.Errorf("%s: the next leaf: %+v, %v, %v", name, entry, ok, err)
		}
		if _, ok, err := tree.FindTimestamp(t.Context(), 1<<40, 0); ok || err != nil {
			t.Errorf("%s: a time after everything: %v, %v", name, ok, err)
		}
		put(original) // once it is repaired, it is read again
		if _, ok, err := tree.Find(t.Context(), 5); !ok || err != nil {
			t.Errorf("%s: after the repair: %v, %v", name, ok, err)
		}
	}
}

// An object that is whole, but another one, is not mistaken for the right one.
func TestAnObjectOfSomebodyElseIsRefused(t *testing.T) {
	s := newStore(t)
	s.set(segments(40))
	s.seal(manifest.Shape{Head: 20, Leaf: 10, Node: 10})
	reference := s.items[0].(command.Reference)
	other := segment.Key{ClusterID: kafka.UUID{0xc2}, Partition: tp, LeaderEpoch: 4, UploadID: reference.UploadID}
	var inner []command.Item
	for _, entry := range segments(10) {
		inner = append(inner, entry)
	}
	data, forged := manifest.Seal(other, "events", 0, inner)
	reference.Checksum, reference.SealedBytes = forged.Checksum, forged.SealedBytes
	key := segment.KeyOfItem(cluster, tp, reference).String()
	if err := s.bucket.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	s.items[0] = reference
	if _, _, err := s.tree(s.manifests(0)).Find(t.Context(), 5); !manifest.IsCorrupt(err) {
		t.Errorf("%v", err)
	}
}

func FuzzParse(f *testing.F) {
	var items []command.Item
	for _, entry := range segments(2) {
		items = append(items, entry)
	}
	data, reference := manifest.Seal(segment.Key{ClusterID: cluster, Partition: tp, UploadID: kafka.UUID{9}}, "a", 0, items)
	f.Add(data)
	data, _ = manifest.Seal(segment.Key{ClusterID: cluster, Partition: tp, UploadID: kafka.UUID{8}}, "a", 0,
		[]command.Item{reference})
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		sealed, err := manifest.Parse(data)
		if err == nil && len(sealed.Items) == 0 {
			t.Error("a sealed object without items")
		}
	})
}

var rewrite = flag.Bool("rewrite", false, "write the golden file anew; released bytes must never change")

// The bytes of a leaf and a node are golden, and are read back from there.
func TestSealedObjectsKeepTheirFormat(t *testing.T) {
	entries := segments(2)
	entries[1].Flags = command.HasAbortedTransactions
	key := segment.Key{ClusterID: cluster, Partition: tp, LeaderEpoch: 4, UploadID: kafka.UUID{9}}
	leaf, reference := manifest.Seal(key, "events", 1, []command.Item{entries[0], entries[1].WithOrigin(1)})
	node, _ := manifest.Seal(key, "events", 1, []command.Item{reference})
	text := "leaf\n" + hex.Dump(leaf) + "node\n" + hex.Dump(node)
	path := filepath.Join("testdata", "sealed-v1.golden")
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(golden) != text {
		t.Errorf("the format has changed:\n%s", text)
	}
	for _, data := range [][]byte{leaf, node} {
		if _, err := manifest.Parse(data); err != nil {
			t.Error(err)
		}
	}
}
