package record

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Batches of another implementation keep their bytes, and only what is said about them is written anew.
var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// A golden file is one batch in hex, a line for each field, with what it is behind a #. Files named java-* were
// written by the producer code of Apache Kafka's Java client 4.1, so they say what the format is, not what we do.

// annotate prints a batch the way golden files have it.
func annotate(b Batch) string {
	var out strings.Builder
	line := func(data []byte, meaning string, args ...any) {
		fmt.Fprintf(&out, "%s # %s\n", hex.EncodeToString(data), fmt.Sprintf(meaning, args...))
	}
	line(b[atBaseOffset:atLength], "base offset %d", b.BaseOffset())
	line(b[atLength:atLeaderEpoch], "length, %d bytes with what precedes it", b.Size())
	line(b[atLeaderEpoch:atMagic], "leader epoch %d", b.LeaderEpoch())
	line(b[atMagic:atCRC], "format version %d", b.Magic())
	line(b[atCRC:atAttributes], "CRC32C of all that follows")
	line(b[atAttributes:atLastOffsetDelta], "attributes: %s, %s, transactional %t, control %t", b.Codec(),
		b.TimestampType(), b.IsTransactional(), b.IsControl())
	line(b[atLastOffsetDelta:atBaseTimestamp], "last offset delta %d", b.LastOffsetDelta())
	line(b[atBaseTimestamp:atMaxTimestamp], "base timestamp %d", b.BaseTimestamp())
	line(b[atMaxTimestamp:atProducerID], "max timestamp %d", b.MaxTimestamp())
	line(b[atProducerID:atProducerEpoch], "producer id %d", b.ProducerID())
	line(b[atProducerEpoch:atBaseSequence], "producer epoch %d", b.ProducerEpoch())
	line(b[atBaseSequence:atCount], "base sequence %d, so the last one is %d", b.BaseSequence(), b.LastSequence())
	line(b[atCount:atRecords], "%d records", b.Count())
	if b.Codec() == None {
		annotateRecords(line, b)
		return out.String()
	}
	for rest := b.Records(); len(rest) > 0; {
		n := min(len(rest), 32)
		line(rest[:n], "%s", b.Codec())
		rest = rest[n:]
	}
	return out.String()
}

func annotateRecords(line func([]byte, string, ...any), b Batch) {
	rest := b.Records()
	for range b.Count() {
		length, n := varint(rest)
		var record Record
		record.decode(rest, n, n+int(length))
		line(rest[:n+int(length)], "%s", describe(b.BaseOffset()+int64(record.OffsetDelta), b.timestamp(&record), &record))
		rest = rest[n+int(length):]
	}
}

// describe prints a record in one line; null and empty differ.
func describe(offset, timestamp int64, r *Record) string {
	text := func(field []byte) string {
		if field == nil {
			return "null"
		}
		if len(field) > 16 {
			return fmt.Sprintf("%q and %d bytes more", field[:16], len(field)-16)
		}
		return fmt.Sprintf("%q", field)
	}
	line := fmt.Sprintf("offset %d at %d: %s = %s", offset, timestamp, text(r.Key), text(r.Value))
	for key, value := range r.Headers() {
		line += fmt.Sprintf(", header %s = %s", text(key), text(value))
	}
	return line
}

// describeAll prints all records of a batch.
func describeAll(t testing.TB, b Batch) []string {
	t.Helper()
	var it Iterator
	var lines []string
	if err := it.Reset(b); err != nil {
		t.Fatal(err)
	}
	for it.Next() {
		lines = append(lines, describe(it.Offset(), it.Timestamp(), it.Record()))
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return lines
}

// readGolden reads the bytes of a golden file.
func readGolden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	for line := range strings.Lines(string(text)) {
		digits, _, _ := strings.Cut(line, "#")
		decoded, err := hex.DecodeString(strings.TrimSpace(digits))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		data = append(data, decoded...)
	}
	return data
}

// checkGolden compares a batch with a golden file, which -rewrite makes anew.
func checkGolden(t *testing.T, name string, b Batch) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *rewrite {
		if err := os.WriteFile(path, []byte(annotate(b)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), annotate(b)); diff != "" {
		t.Errorf("%s (-golden +now):\n%s", name, diff)
	}
	if !bytes.Equal(readGolden(t, name), b) {
		t.Errorf("%s does not have the bytes of the batch", name)
	}
}

// goldenFields are options whose every field shows.
func goldenFields() BuilderOptions {
	return BuilderOptions{
		BaseOffset: 0x0102030405060708, LeaderEpoch: 0x11121314, ProducerID: 0x2122232425262728,
		ProducerEpoch: 0x3132, BaseSequence: 0x41424344,
	}
}

func appendFew(b *Builder) {
	b.Append(1000, []byte("key"), []byte("value"),
		Header{Key: "a", Value: []byte("1")}, Header{Key: "a"}, Header{Value: []byte{}})
	b.Append(3000, nil, nil)
	b.Append(2000, []byte{}, []byte{})
}

func TestOurBatchesAreWhatTheGoldenFilesHold(t *testing.T) {
	options := map[string]BuilderOptions{"plain": PlainProducer(), "fields": goldenFields()}
	for _, codec := range []Codec{Gzip, Snappy, LZ4, Zstd} {
		opts := PlainProducer()
		opts.Codec = codec
		options[codec.String()] = opts
	}
	logAppend := PlainProducer()
	logAppend.TimestampType = LogAppendTime
	options["log-append-time"] = logAppend
	for name, opts := range options {
		t.Run(name, func(t *testing.T) {
			builder := NewBuilder(opts)
			appendFew(builder)
			checkGolden(t, name, builder.Build())
		})
	}
	t.Run("end-marker", func(t *testing.T) {
		opts := goldenFields()
		opts.Control, opts.Transactional = true, true
		builder := NewBuilder(opts)
		builder.AppendEndMarker(5000, EndMarker{Type: Commit, CoordinatorEpoch: 0x51525354})
		checkGolden(t, "end-marker", builder.Build())
	})
	t.Run("compacted", func(t *testing.T) {
		builder := NewBuilder(goldenFields())
		builder.AppendAt(2, 1000, []byte("kept"), nil)
		builder.AppendAt(70, 1001, []byte("kept too"), []byte("v"))
		checkGolden(t, "compacted", builder.Build())
	})
}

// javaFew and javaMany are what the records of the Java files are.
func javaFew(base int64) []string {
	return []string{
		fmt.Sprintf(`offset %d at 1000: "key" = "value", header "a" = "1", header "a" = null, header "" = ""`, base),
		fmt.Sprintf(`offset %d at 3000: null = null`, base+1),
		fmt.Sprintf(`offset %d at 2000: "" = ""`, base+2),
	}
}

func javaMany() []string {
	lines := javaFew(0)
	for i := range 10 {
		var value strings.Builder
		for j := range 1000 {
			fmt.Fprintf(&value, "firn %d-%d ", i, j%7)
		}
		record := Record{Key: fmt.Appendf(nil, "k%d", i), Value: []byte(value.String())}
		lines = append(lines, describe(int64(i+3), int64(2000+i), &record))
	}
	return lines
}

func TestBatchesOfKafkasJavaClientAreReadAndAccepted(t *testing.T) {
	for name, want := range map[string][]string{
		"java-plain": javaFew(0), "java-idempotent": javaFew(0), "java-transactional": javaFew(0),
		"java-gzip": javaMany(), "java-snappy": javaMany(), "java-lz4": javaMany(), "java-zstd": javaMany(),
		"java-zstd-level-22": javaMany(),
	} {
		t.Run(name, func(t *testing.T) {
			batch := Batch(readGolden(t, name))
			checkGolden(t, name, batch)
			if diff := cmp.Diff(want, describeAll(t, batch)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			before := bytes.Clone(batch)
			got, summary, err := NewValidator().Validate(batch, AnyOptions())
			if err != nil {
				t.Fatal(err)
			}
			wantSummary := Summary{Count: int32(len(want)), MaxTimestamp: 3000, MaxTimestampOffsetDelta: 1, Size: len(batch)}
			if summary != wantSummary {
				t.Errorf("summary is %+v instead of %+v", summary, wantSummary)
			}
			if !bytes.Equal(got, before) {
				t.Error("the batch was changed, although nothing in it is wrong")
			}
		})
	}
}

func TestPlainBatchesAreByteForByteThoseOfKafkasJavaClient(t *testing.T) {
	idempotent := PlainProducer()
	idempotent.ProducerID, idempotent.ProducerEpoch, idempotent.BaseSequence = 4711, 3, 2147483646
	transactional := idempotent
	transactional.BaseSequence, transactional.Transactional = 7, true
	for name, opts := range map[string]BuilderOptions{
		"java-plain": PlainProducer(), "java-idempotent": idempotent, "java-transactional": transactional,
	} {
		builder := NewBuilder(opts)
		appendFew(builder)
		got := builder.Build()
		// The Java client leaves leader epoch −1 as we do, but the checksum would not show a difference.
		if diff := cmp.Diff(annotate(readGolden(t, name)), annotate(got)); diff != "" {
			t.Errorf("%s (-java +ours):\n%s", name, diff)
		}
	}
}

func TestEndMarkersOfKafkasJavaCodeAreReadAndMade(t *testing.T) {
	for name, want := range map[string]EndMarker{
		"java-commit": {Type: Commit, CoordinatorEpoch: 17}, "java-abort": {Type: Abort, CoordinatorEpoch: 17},
	} {
		batch := Batch(readGolden(t, name))
		checkGolden(t, name, batch)
		if err := batch.VerifyCRC(); err != nil {
			t.Error(err)
		}
		kind, err := batch.ControlType()
		if err != nil || kind != want.Type {
			t.Errorf("%s: type is %s, %v", name, kind, err)
		}
		marker, ok, err := batch.EndMarker()
		if err != nil || !ok || marker != want {
			t.Errorf("%s: marker is %+v, %t, %v", name, marker, ok, err)
		}
		made := NewEndMarker(4711, 3, 5000, want)
		made.SetBaseOffset(42)
		made.SetLeaderEpoch(9)
		if diff := cmp.Diff(annotate(batch), annotate(made)); diff != "" {
			t.Errorf("%s (-java +ours):\n%s", name, diff)
		}
	}
}
