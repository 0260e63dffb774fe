package segment_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

const keyFolder = "101112131415161718191a1b1c1d1e1f/303132333435363738393a3b3c3d3e3f/7/seg/"

func exampleKey() segment.Key {
	return segment.KeyOf(id(0x10), kafka.TopicIDPartition{ID: id(0x30), Partition: 7},
		command.SegmentEntry{BaseOffset: 100, EndOffset: 110, LeaderEpoch: 3, UploadID: id(0x50)})
}

func TestAKeyHoldsClusterTopicPartitionRangeEpochAndUpload(t *testing.T) {
	key := exampleKey()
	want := keyFolder + "00000000000000000100-00000000000000000110-0000000003-505152535455565758595a5b5c5d5e5f.seg"
	if key.String() != want {
		t.Errorf("%s\n%s", key, want)
	}
	if prefix := segment.Prefix(key.ClusterID, key.Partition); prefix != keyFolder {
		t.Errorf("prefix %s", prefix)
	}
	if prefix := segment.TopicPrefix(key.ClusterID, key.Partition.ID); !strings.HasPrefix(keyFolder, prefix+"7/") {
		t.Errorf("topic prefix %s", prefix)
	}
}

func TestKeysParseBackAndSortAsTheirOffsetsDo(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) segment.Key {
		key := exampleKey()
		key.BaseOffset = rapid.Int64Range(0, math.MaxInt64-1).Draw(t, "base")
		key.EndOffset = rapid.Int64Range(key.BaseOffset+1, math.MaxInt64).Draw(t, "end")
		key.LeaderEpoch = kafka.LeaderEpoch(rapid.Int32Range(0, math.MaxInt32).Draw(t, "epoch"))
		key.UploadID[0] = rapid.Byte().Draw(t, "upload")
		return key
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		if got, err := segment.ParseKey(a.String()); got != a || err != nil {
			t.Fatalf("%s parses as %+v, %v", a, got, err)
		}
		if err := objectstore.CheckKey(a.String()); err != nil {
			t.Fatal(err)
		}
		if a.BaseOffset < b.BaseOffset != (a.String() < b.String()) && a.BaseOffset != b.BaseOffset {
			t.Fatalf("%s and %s sort otherwise than their offsets", a, b)
		}
		startAfter := segment.StartAfter(a.ClusterID, a.Partition, a.BaseOffset)
		if startAfter >= a.String() || (b.String() > startAfter) != (b.BaseOffset >= a.BaseOffset) {
			t.Fatalf("a listing after %s begins wrongly around %s", startAfter, b)
		}
	})
}

func TestSealedPartsOfTheManifestHaveFoldersOfTheirOwn(t *testing.T) {
	key := exampleKey()
	reference := command.Reference{Level: command.LevelLeaf, BaseOffset: 100, EndOffset: 110, LeaderEpoch: 3, UploadID: id(0x50)}
	for level, name := range map[int]string{command.LevelLeaf: "leaf", command.LevelNode: "node"} {
		reference.Level = level
		sealed := segment.KeyOfItem(key.ClusterID, key.Partition, reference)
		want := strings.ReplaceAll(key.String(), "seg", name)
		if sealed.String() != want || sealed.Kind != segment.Kind(level+1) {
			t.Errorf("%s of kind %d instead of %s", sealed, sealed.Kind, want)
		}
		if got, err := segment.ParseKey(want); got != sealed || err != nil {
			t.Errorf("%s parses as %+v, %v", want, got, err)
		}
		folder := segment.Folder(key.ClusterID, key.Partition, sealed.Kind)
		if after := segment.StartAfterIn(folder, 100); !strings.HasPrefix(want, folder) || after >= want {
			t.Errorf("a listing of %s after %s does not show %s", folder, after, want)
		}
	}
}

func TestOnlyWhatAKeyPrintsIsParsed(t *testing.T) {
	good := exampleKey().String()
	bad := []string{
		"", "x", good + "x", "x" + good, "prefix/" + good, good[1:], strings.Replace(good, "/7/", "/07/", 1),
		strings.Replace(good, "/7/", "/-7/", 1), strings.Replace(good, "/7/", "/4294967296/", 1),
		strings.Replace(good, "/7/", "//", 1), strings.Replace(good, "1f/", "1F/", 1),
		strings.Replace(good, ".seg", ".sig", 1),
		strings.Replace(good, "00100-", "00110-", 1), strings.Replace(good, "00100-", "0010x-", 1),
		strings.Replace(good, "-0000000003-", "-9999999999-", 1), strings.Replace(good, "-0000000003-", "--000000003-", 1),
		strings.Replace(good, "00000100-", "+0000100-", 1), strings.Replace(good, "/seg/", "/leaf/", 1),
		strings.Replace(good, "505152", "50515g", 1),
	}
	for _, text := range bad {
		if key, err := segment.ParseKey(text); err == nil {
			t.Errorf("%q parses as %+v", text, key)
		}
	}
	if slices.Contains(bad, good) {
		t.Error("a replacement did not change the key")
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add(exampleKey().String())
	f.Add(keyFolder)
	f.Fuzz(func(t *testing.T, text string) {
		if key, err := segment.ParseKey(text); err == nil && key.String() != text {
			t.Errorf("%q parses as %s", text, key)
		}
	})
}
