package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// idlePartitions tells a partitioner that nothing waits for any partition.
type idlePartitions struct{ left int }

func (i *idlePartitions) Next() (partition int, records int64) {
	i.left--
	return i.left, 0
}

func (i *idlePartitions) Rem() int { return i.left }

// placer returns how a partitioner places records in a topic.
func placer(t *testing.T, name string, stickiness int) func(record *kgo.Record, partitions int) int {
	t.Helper()
	partitioner, err := newPartitioner(name, stickiness)
	if err != nil {
		t.Fatal(err)
	}
	topic := partitioner.ForTopic("t").(kgo.TopicBackupPartitioner)
	return func(record *kgo.Record, partitions int) int {
		return topic.PartitionByBackup(record, partitions, &idlePartitions{partitions})
	}
}

// TestPlacementByKeyIsThatOfJavasProducer: the golden file says where that puts keys, the empty one and bytes above
// 0x7f among them.
func TestPlacementByKeyIsThatOfJavasProducer(t *testing.T) {
	file, err := os.Open(filepath.Join("testdata", "murmur2.golden"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	place := placer(t, partitionMurmur2, partitionStickiness)
	keys := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		keys++
		fields := strings.Fields(lines.Text())
		key, err := hex.DecodeString(strings.TrimPrefix(fields[0], "-"))
		if err != nil {
			t.Fatal(err)
		}
		for i, partitions := range []int{1, 2, 3, 10, 12, 50, 1000} {
			record := &kgo.Record{Key: append([]byte{}, key...), Partition: anyPartition}
			if got := place(record, partitions); strconv.Itoa(got) != fields[2+i] {
				t.Errorf("key %s of %d partitions: %d, want %s", fields[0], partitions, got, fields[2+i])
			}
		}
	}
	if keys < 80 {
		t.Errorf("only %d keys were compared", keys)
	}
}

func TestRecordsWithoutAKeyStayTogetherForABatchsWorth(t *testing.T) {
	const partitions, stickiness, size = 10, 1000, 90
	for name, key := range map[string][]byte{partitionMurmur2: nil, partitionSticky: []byte("k")} {
		place := placer(t, name, stickiness)
		var runs []int // lengths of the runs in one partition
		last, used := -1, make(map[int]bool)
		for range 2000 {
			at := place(&kgo.Record{Key: key, Value: make([]byte, size), Partition: anyPartition}, partitions)
			if at != last {
				runs = append(runs, 0)
			}
			runs[len(runs)-1]++
			last, used[at] = at, true
		}
		// The last run may be cut off; two runs in the same partition by chance look like one.
		if shortest := slices.Min(runs[:len(runs)-1]); shortest < 9 || len(runs) < 100 || len(used) != partitions {
			t.Errorf("%s: %d runs, the shortest of %d, in %d partitions", name, len(runs), shortest, len(used))
		}
	}
}

func TestPartitionersThatDoNotLookAtKeys(t *testing.T) {
	keyed := func() *kgo.Record { return &kgo.Record{Key: []byte("k"), Partition: anyPartition} }
	turns := placer(t, partitionRoundRobin, 0)
	for i := range 7 {
		if got := turns(keyed(), 3); got != i%3 {
			t.Errorf("round-robin: record %d goes to %d", i, got)
		}
	}
	die := placer(t, partitionRandom, 0)
	counts := make([]int, 4)
	for range 4000 {
		counts[die(keyed(), 4)]++
	}
	if slices.Min(counts) < 800 || slices.Max(counts) > 1200 {
		t.Errorf("random: %v of 4000 records", counts)
	}
	for _, name := range partitioners() {
		if got := placer(t, name, 1000)(&kgo.Record{Key: []byte("k"), Partition: 2}, 3); got != 2 {
			t.Errorf("%s: a record that names partition 2 goes to %d", name, got)
		}
	}
}

// TestLayoutsReadWhatKcatAndRpkWrite: sizes in several forms, encodings, headers and everything else a record has.
func TestLayoutsReadWhatKcatAndRpkWrite(t *testing.T) {
	header := func(key, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: []byte(value)} }
	at := time.UnixMilli(1357035300000)
	for _, test := range []struct {
		name, layout, in string
		want             kgo.Record
	}{
		{"everything", `%t %p %d %k=%v\n`, "t 3 1357035300000 k=v\n",
			kgo.Record{Topic: "t", Partition: 3, Timestamp: at, Key: []byte("k"), Value: []byte("v")}},
		{"sizes in ascii", `%K %V %k%v`, "2 3 kkvvv", kgo.Record{Key: []byte("kk"), Value: []byte("vvv")}},
		{"sizes as big-endian numbers", `%K{big32}%k%V{big64}%v`, "\x00\x00\x00\x01k\x00\x00\x00\x00\x00\x00\x00\x02v\n",
			kgo.Record{Key: []byte("k"), Value: []byte("v\n")}},
		{"sizes as other numbers", `%K{little16}%k%V{hex4}%v`, "\x01\x00k2vv",
			kgo.Record{Key: []byte("k"), Value: []byte("vv")}},
		{"a size of one byte, and a fixed one", `%K{byte}%k%V{3}%v`, "\x01kvvv",
			kgo.Record{Key: []byte("k"), Value: []byte("vvv")}},
		{"hex and base64", `%k{hex} %v{base64}\n`, "00ff aGk=\n", kgo.Record{Key: []byte{0, 0xff}, Value: []byte("hi")}},
		{"headers", `%H %h{%k:%v,}%v\n`, "2 a:1,b:2,v\n",
			kgo.Record{Value: []byte("v"), Headers: []kgo.RecordHeader{header("a", "1"), header("b", "2")}}},
		{"headers with sizes", `%H{byte}%h{%K{byte}%k%V{big16}%v}%v;`, "\x01\x01a\x00\x01bv;",
			kgo.Record{Value: []byte("v"), Headers: []kgo.RecordHeader{header("a", "b")}}},
		{"escapes and percent signs", `%%\x01%k\t%v\r\n`, "%\x01k\tv\r\n", kgo.Record{Key: []byte("k"), Value: []byte("v")}},
		{"JSON values", `%v{json}`, `{"a" : [1, "}"]}`, kgo.Record{Value: []byte(`{"a":[1,"}"]}`)}},
		{"what is empty is not null", `%H %h{%k:%v,}%k=%v\n`, "1 a:,=\n", kgo.Record{
			Key: []byte{}, Value: []byte{}, Headers: []kgo.RecordHeader{header("a", "")}}},
		{"what the layout does not have is null", `%H %h{%k,}%v\n`, "1 a,\n", kgo.Record{
			Value: []byte{}, Headers: []kgo.RecordHeader{{Key: "a"}}}},
		{"a key alone", `%k\n`, "k\n", kgo.Record{Key: []byte("k")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			records, err := readAll(t, test.layout, "", test.in)
			if err != nil || len(records) != 1 {
				t.Fatalf("%d records, error %v", len(records), err)
			}
			if test.want.Partition == 0 {
				test.want.Partition = anyPartition
			}
			if diff := same(&test.want, records[0]); diff != "" || records[0].Topic != test.want.Topic {
				t.Errorf("topic %q, (-want +got):\n%s", records[0].Topic, diff)
			}
		})
	}
}

// contents reads an input to its end: the values, and what it ended with.
func contents(t *testing.T, request produceRequest, stdin io.Reader) (values []string, err error) {
	t.Helper()
	if request.delimiter == "" {
		request.delimiter = `\n`
	}
	input, err := request.input(stdin)
	if err != nil {
		t.Fatal(err)
	}
	for {
		record, err := input.next()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return values, err
		}
		values = append(values, string(record.Value))
	}
}

func TestFilesAreReadOneAfterTheOther(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, empty, second := write("first", "a\nb"), write("empty", ""), write("second", "c\n")
	broken := write("broken", "{\"value\":\"v\"}\nno\n")
	for _, test := range []struct {
		name    string
		request produceRequest
		want    []string
		failed  string
	}{
		{"lines", produceRequest{format: formatText, inputs: []string{first, empty, "-", second}},
			[]string{"a", "b", "stdin", "c"}, ""},
		{"files as values", produceRequest{format: formatRaw, inputs: []string{first, empty, second}},
			[]string{"a\nb", "", "c\n"}, ""},
		{"standard input as one value", produceRequest{format: formatRaw}, []string{"stdin"}, ""},
		{"another end of a record", produceRequest{format: formatText, delimiter: "d", inputs: []string{"-"}},
			[]string{"st", "in"}, ""},
		{"an error names its file", produceRequest{format: formatJSON, inputs: []string{broken, first}},
			[]string{"v"}, broken + ": line 2: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := contents(t, test.request, strings.NewReader("stdin"))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if err != nil && test.failed == "" || test.failed != "" && !strings.HasPrefix(fmt.Sprint(err), test.failed) {
				t.Errorf("error %v, want %q", err, test.failed)
			}
		})
	}
}

func TestAnInputThatBreaksOffIsAnError(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(io.ErrClosedPipe))
	got, err := contents(t, produceRequest{format: formatText}, broken)
	if len(got) != 2 || !errors.Is(err, io.ErrClosedPipe) || !strings.HasPrefix(err.Error(), "read line 3: ") {
		t.Errorf("read %q, error %v", got, err)
	}
	if _, err := contents(t, produceRequest{format: formatRaw}, iotest.ErrReader(io.ErrClosedPipe)); err == nil {
		t.Error("a value that breaks off is sent")
	}
}

func TestNumbersOfBytes(t *testing.T) {
	for text, want := range map[string]byteCount{
		"0": 0, "16384": 16384, "16k": 16384, "16KiB": 16384, "1m": 1 << 20, "1 MB": 1 << 20, "2g": 2 << 30, "7b": 7,
	} {
		var got byteCount
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%s is %d, error %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "-1", "1.5m", "1x", "1kk", "9999999999g", "0x10"} {
		var got byteCount
		if err := got.Set(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
