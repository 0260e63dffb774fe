package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/segment"
)

// twoBatches are offsets 4 and 5, then 6 and 7.
func twoBatches() []byte {
	var data []byte
	for _, base := range []int64{4, 6} {
		options := record.PlainProducer()
		options.BaseOffset, options.LeaderEpoch = base, 3
		builder := record.NewBuilder(options)
		builder.Append(1000+base, []byte("key"), []byte("value"))
		builder.Append(1001+base, nil, nil, record.Header{Key: "h", Value: []byte("x")})
		data = append(data, builder.Build()...)
	}
	return data
}

// partitionFolder is the folder of a partition with one segment.
func partitionFolder(t *testing.T) (folder, log string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "flights-0")
	log = filepath.Join(folder, "00000000000000000004.log")
	for name, data := range map[string][]byte{
		log: twoBatches(),
		filepath.Join(folder, "leader-epoch-checkpoint"): []byte("0\n1\n3 4\n"),
	} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder, log
}

// segmentObject is the same segment as an object in a directory bucket.
func segmentObject(t *testing.T) (bucket, object string) {
	t.Helper()
	data := twoBatches()
	made, err := segment.New(t.Context(), bytes.NewReader(data), segment.Tail{
		ClusterID: kafka.UUID{1}, Partition: kafka.TopicIDPartition{ID: kafka.TopicID{2}}, Topic: "flights",
		BaseOffset: 4, EndOffset: 8, LeaderEpoch: 3, UploadID: kafka.UUID{9}, LogStartOffset: 4, IndexBaseOffset: 4,
		Contents: segment.Contents{DataBytes: int64(len(data))}, FirstAppendedAt: -1, LastAppendedAt: -1,
		LeaderEpochs: []segment.EpochStart{{Epoch: 3, StartOffset: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	encoded := make([]byte, made.Size())
	if _, err := made.ReadAt(encoded, 0); err != nil {
		t.Fatal(err)
	}
	bucket = t.TempDir()
	object = filepath.Join(bucket, filepath.FromSlash(made.Tail.Key().String()))
	if err := os.MkdirAll(filepath.Dir(object), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(object, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	return bucket, object
}

func flipByte(t *testing.T, name string, position int) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[position] ^= 0xff
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSoundFilesVerify(t *testing.T) {
	folder, log := partitionFolder(t)
	bucket, object := segmentObject(t)
	for _, test := range []struct{ path, want string }{
		{folder, "verified 2 files: 2 batches, 4 records, "},
		{log, "verified 1 file: 2 batches, 4 records, "},
		{filepath.Dir(folder), "verified 2 files: 2 batches, 4 records, "},
		{object, "verified 1 file: 2 batches, 4 records, "},
		{bucket, "verified 1 file: 2 batches, 4 records, "},
	} {
		if got := firn(t, "", "log", "verify", test.path); got.status != 0 || !strings.HasPrefix(got.out, test.want) {
			t.Errorf("%s: status %d, error %q, printed %q, want %q", test.path, got.status, got.err, got.out, test.want)
		}
	}
	got := firn(t, "", "log", "verify", folder, bucket, "-f", "json")
	var report struct{ Files, Batches int }
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.Files != 3 || report.Batches != 4 {
		t.Errorf("%q, error %v", got.out, err)
	}
}

func TestDamageIsPrintedWithItsFileAndPosition(t *testing.T) {
	second := len(twoBatches()) / 2
	folder, log := partitionFolder(t)
	bucket, object := segmentObject(t)
	flipByte(t, log, second+record.HeaderSize+2)
	flipByte(t, object, second+record.HeaderSize+2)
	for _, test := range []struct{ path, file string }{{folder, log}, {log, log}, {bucket, object}, {object, object}} {
		got := firn(t, "", "log", "verify", test.path)
		want := test.file + " at " + decimal(int64(second)) + ": "
		if got.status != exitFailed || !strings.Contains(got.out, want) || !strings.Contains(got.err, "problem") ||
			strings.Count(got.err, "\n") != 1 {
			t.Errorf("%s: status %d, error %q, printed %q, want %q", test.path, got.status, got.err, got.out, want)
		}
	}
}

func TestWhatIsNoLogIsRefused(t *testing.T) {
	empty := t.TempDir()
	text := filepath.Join(empty, "notes.txt")
	torn := filepath.Join(empty, "torn.seg")
	for name, data := range map[string]string{text: "hello", torn: ""} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{text, torn, filepath.Join(empty, "missing"), filepath.Join(empty, "missing.seg")} {
		for _, command := range []string{"verify", "dump"} {
			if got := firn(t, "", "log", command, path); got.status != exitFailed || strings.Count(got.err, "\n") != 1 {
				t.Errorf("%s %s: status %d, error %q, printed %q", command, path, got.status, got.err, got.out)
			}
		}
	}
	if got := firn(t, "", "log", "verify", t.TempDir()); got.status != exitFailed ||
		!strings.Contains(got.err, "holds neither files of a log nor objects of a bucket") {
		t.Errorf("an empty directory: status %d, error %q", got.status, got.err)
	}
}

// dumpedTypes lists the types of JSON lines, with the offset where they have one.
func dumpedTypes(t *testing.T, lines string) []string {
	t.Helper()
	var types []string
	decoder := json.NewDecoder(strings.NewReader(lines))
	for decoder.More() {
		var line struct {
			Type string
			Item struct {
				BaseOffset *int64
				Offset     *int64
			}
		}
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		text := line.Type
		if line.Item.BaseOffset != nil {
			text += " " + decimal(*line.Item.BaseOffset)
		}
		if line.Item.Offset != nil {
			text += " " + decimal(*line.Item.Offset)
		}
		types = append(types, text)
	}
	return types
}

func TestDumpsOfFilesAndObjects(t *testing.T) {
	folder, log := partitionFolder(t)
	_, object := segmentObject(t)
	records := "record 4,record 5,batch 6,record 6,record 7"
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"a log file", []string{log}, "file,batch 4,batch 6"},
		{"with records", []string{"--records", log}, "file,batch 4," + records},
		{"a folder", []string{folder}, "file,batch 4,batch 6,file,epoch"},
		{"an object", []string{object}, "object 4,batch 4,batch 6"},
		{"an object with records", []string{object, "--records"}, "object 4,batch 4," + records},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := firn(t, "", append([]string{"log", "dump", "-f", "json"}, test.args...)...)
			if types := strings.Join(dumpedTypes(t, got.out), ","); got.status != 0 || types != test.want {
				t.Errorf("status %d, error %q, dumped %s, want %s", got.status, got.err, types, test.want)
			}
			text := firn(t, "", append([]string{"log", "dump"}, test.args...)...)
			if lines := strings.Count(text.out, "\n"); text.status != 0 || lines != strings.Count(test.want, ",")+1 {
				t.Errorf("status %d, error %q, printed\n%s", text.status, text.err, text.out)
			}
		})
	}
}

func TestEveryTypeOfDumpedLineIsInItsSchema(t *testing.T) {
	got := firn(t, "", "log", "dump", "--format", "help")
	if got.status != 0 || strings.Contains(got.out, `"other"`) || strings.Count(got.out, "{\n  \"type\": ") != 20 {
		t.Errorf("status %d, error %q, printed\n%s", got.status, got.err, got.out)
	}
}
