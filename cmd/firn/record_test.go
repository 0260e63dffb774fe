package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// same tells whether two records have the same content, null and empty told apart.
func same(a, b *kgo.Record) string {
	type content struct {
		Partition  int32
		Timestamp  int64
		Key, Value []byte
		Headers    []kgo.RecordHeader
	}
	of := func(r *kgo.Record) content {
		headers := r.Headers
		if len(headers) == 0 {
			headers = nil
		}
		return content{r.Partition, r.Timestamp.UnixMilli(), r.Key, r.Value, headers}
	}
	return cmp.Diff(of(a), of(b))
}

func roundTrip(record *kgo.Record) (*kgo.Record, error) {
	line, err := appendRecordJSON(nil, nil, record)
	if err != nil {
		return nil, err
	}
	if bytes.Count(line, []byte("\n")) != 1 || !bytes.HasSuffix(line, []byte("\n")) {
		return nil, errors.New("the record is not one line")
	}
	return parseRecordJSON(bytes.TrimSpace(line))
}

func TestJSONLinesLoseNothing(t *testing.T) {
	for _, test := range []struct {
		name   string
		record kgo.Record
	}{
		{"null key and null value", kgo.Record{}},
		{"empty key and empty value", kgo.Record{Key: []byte{}, Value: []byte{}}},
		{"text", kgo.Record{Key: []byte("ключ"), Value: []byte("line\nbreak \u2028 <&> \"quoted\"")}},
		{"the word null", kgo.Record{Key: []byte("null"), Value: []byte("null")}},
		{"bytes that are no text", kgo.Record{Key: []byte{0xff, 0}, Value: []byte{0xed, 0xa0, 0x80}}},
		{"headers in order, repeated, null, empty, binary", kgo.Record{Value: []byte("v"), Headers: []kgo.RecordHeader{
			{Key: "b", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "b", Value: []byte{}},
			{Key: "", Value: []byte{0xfe}}, {Key: "\xff", Value: []byte("x")}}}},
		{"the timestamp that means none", kgo.Record{Timestamp: time.UnixMilli(-1)}},
		{"the first timestamp", kgo.Record{Timestamp: time.UnixMilli(0)}},
		{"a partition", kgo.Record{Partition: 7, Timestamp: time.UnixMilli(1357035300000)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.record.Timestamp.IsZero() {
				test.record.Timestamp = time.UnixMilli(1)
			}
			got, err := roundTrip(&test.record)
			if err != nil {
				t.Fatal(err)
			}
			if diff := same(&test.record, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnyRecordSurvivesJSON(t *testing.T) {
	data := rapid.OneOf(rapid.Just[[]byte](nil), rapid.SliceOf(rapid.Byte()),
		rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }))
	header := rapid.Custom(func(t *rapid.T) kgo.RecordHeader {
		return kgo.RecordHeader{Key: string(rapid.SliceOf(rapid.Byte()).Draw(t, "key")), Value: data.Draw(t, "value")}
	})
	rapid.Check(t, func(t *rapid.T) {
		record := &kgo.Record{Partition: rapid.Int32Range(0, 100).Draw(t, "partition"), Key: data.Draw(t, "key"),
			Value: data.Draw(t, "value"), Headers: rapid.SliceOfN(header, 0, 4).Draw(t, "headers"),
			Timestamp: time.UnixMilli(rapid.Int64Range(-1, 1<<45).Draw(t, "timestamp"))}
		got, err := roundTrip(record)
		if err != nil {
			t.Fatal(err)
		}
		if diff := same(record, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestAPrintedRecordSaysWhereItLies(t *testing.T) {
	record := &kgo.Record{Topic: "flights", Partition: 2, Offset: 41, LeaderEpoch: 3, Timestamp: time.UnixMilli(5),
		Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{}), Key: []byte("k")}
	line, err := appendRecordJSON([]byte("before\n"), nil, record)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n" + `{"topic":"flights","partition":2,"offset":41,"leader_epoch":3,"timestamp":5,` +
		`"timestamp_type":"CreateTime","key":"k","value":null,"headers":[]}` + "\n"
	if string(line) != want {
		t.Errorf("printed\n%s\nwant\n%s", line, want)
	}
}

func TestWrongJSONLinesAreRefused(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{`1`, "a JSON object is expected, not a number"},
		{`[]`, "a JSON object is expected"},
		{`{`, "does not end on its line"},
		{`{}`, `"value" is missing`},
		{`{"key":"k"}`, `"value" is missing`},
		{`{"value":1}`, `"value" must be a string or null`},
		{`{"value":"v","vlaue":"w"}`, `unknown field "vlaue"`},
		{`{"value":"v"} {"value":"w"}`, "more follows"},
		{`{"value":"?","value_encoding":"base64"}`, "is not base64"},
		{`{"value":"v","value_encoding":"hex"}`, "unknown encoding"},
		{`{"value":"v","key":"?","key_encoding":"base64"}`, "key: "},
		{`{"value":"v","headers":[{"key":"h","value":"?","value_encoding":"base64"}]}`, "header h: "},
		{`{"value":"v","partition":"1"}`, `"partition" must not be a string`},
		{`{"value":"v","timestamp":1.5}`, `"timestamp" must not be a number`},
	} {
		if record, err := parseRecordJSON([]byte(test.line)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s is %+v, error %v, want %q", test.line, record, err, test.want)
		}
	}
}

func FuzzParseRecordJSON(f *testing.F) {
	f.Add([]byte(`{"topic":"t","partition":2,"timestamp":5,"key":"k","value":"AA==","value_encoding":"base64"}`))
	f.Add([]byte(`{"value":null,"headers":[{"key":"a","value":null}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		record, err := parseRecordJSON(line)
		if err != nil {
			return
		}
		if record.Timestamp.IsZero() {
			record.Timestamp = time.UnixMilli(0)
		}
		again, err := roundTrip(record)
		if err != nil {
			t.Fatal(err)
		}
		if diff := same(record, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func readAll(t *testing.T, format, separator, in string) ([]*kgo.Record, error) {
	t.Helper()
	request := produceRequest{format: format, separator: separator, delimiter: `\n`}
	input, err := request.input(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	var records []*kgo.Record
	for {
		record, err := input.next()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, record)
	}
}

func TestInputFormats(t *testing.T) {
	type pair struct{ Key, Value []byte }
	value := func(text string) pair { return pair{nil, []byte(text)} }
	for _, test := range []struct {
		name, format, separator, in string
		want                        []pair
	}{
		{"lines", formatText, "", "a\nb\n", []pair{value("a"), value("b")}},
		{"a last line without an end", formatText, "", "a\nb", []pair{value("a"), value("b")}},
		{"no input", formatText, "", "", nil},
		{"an empty line is an empty value, not null", formatText, "", "a\n\nb\n", []pair{value("a"), value(""), value("b")}},
		{"a carriage return belongs to the record", formatText, "", "a\r\n", []pair{value("a\r")}},
		{"keys", formatText, ":", "k:v\n:v\nk:\nk:v:w\n",
			[]pair{{[]byte("k"), []byte("v")}, {[]byte{}, []byte("v")}, {[]byte("k"), []byte{}}, {[]byte("k"), []byte("v:w")}}},
		{"an escaped separator", formatText, `\t`, "k\tv\n", []pair{{[]byte("k"), []byte("v")}}},
		{"JSON lines and blank ones", formatJSONLines, "", "{\"value\":\"a\"}\n\n{\"key\":\"k\",\"value\":null}\n",
			[]pair{value("a"), {[]byte("k"), nil}}},
		{"json is the same as jsonl", formatJSON, "", `{"value":"a"}`, []pair{value("a")}},
		{"a layout", `%k %v\n`, "", "k v\nl w\n", []pair{{[]byte("k"), []byte("v")}, {[]byte("l"), []byte("w")}}},
		{"a sized layout", `%V{ascii} %v;`, "", "3 a;b;1 c;", []pair{value("a;b"), value("c")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			records, err := readAll(t, test.format, test.separator, test.in)
			if err != nil {
				t.Fatal(err)
			}
			var got []pair
			for _, record := range records {
				got = append(got, pair{record.Key, record.Value})
				if record.Partition != anyPartition {
					t.Errorf("the record names partition %d", record.Partition)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWrongInputNamesItsLine(t *testing.T) {
	for _, test := range []struct{ name, format, separator, in, want string }{
		{"a line without a separator", formatText, ":", "k:v\nnone\n", "line 2 has no key separator"},
		{"broken JSON", formatJSON, "", "{\"value\":\"v\"}\n\n{", "line 3: "},
		{"a layout that ends early", `%V{ascii} %v;`, "", "3 a;b;9 c", "record 2 does not match the layout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			records, err := readAll(t, test.format, test.separator, test.in)
			if err == nil || !strings.Contains(err.Error(), test.want) || len(records) != 1 {
				t.Errorf("%d records, error %v, want 1 and %q", len(records), err, test.want)
			}
		})
	}
}

func TestWhatTheCommandLineGivesToRecords(t *testing.T) {
	flight := time.UnixMilli(1357035300000)
	request := produceRequest{topic: "t", format: formatText, delimiter: `\n`, key: "fallback", hasKey: true,
		headers: []string{"a=1", "b:2=3", "c"}, partition: anyPartition, nullValue: true, timestamp: "2013-01-31"}
	defaults, err := request.defaults()
	if err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Partition: 3, Value: []byte{}}
	if err := defaults.apply(record); err != nil {
		t.Fatal(err)
	}
	want := &kgo.Record{Partition: 3, Key: []byte("fallback"), Timestamp: time.UnixMilli(at("2013-01-31T00:00:00Z")),
		Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2=3")}, {Key: "c"}}}
	if diff := same(want, record); diff != "" {
		t.Error(diff)
	}
	own := &kgo.Record{Partition: anyPartition, Key: []byte{}, Value: []byte("v"), Timestamp: flight}
	if err := defaults.apply(own); err != nil {
		t.Fatal(err)
	}
	if own.Key == nil || len(own.Key) != 0 || !own.Timestamp.Equal(flight) || string(own.Value) != "v" {
		t.Errorf("what the record had was replaced: %+v", own)
	}
	for _, partition := range []int32{4, -2} {
		if err := checkPartition(&kgo.Record{Partition: partition}, 4); err == nil {
			t.Errorf("partition %d of a topic with 4 was accepted", partition)
		}
	}
}

func TestPartitionsGivenOnTheCommandLine(t *testing.T) {
	fixed := recordDefaults{topic: "t", partition: 2}
	byKey := recordDefaults{topic: "t", partition: anyPartition, byKey: true}
	for _, test := range []struct {
		defaults   recordDefaults
		named, got int32
	}{{fixed, anyPartition, 2}, {fixed, 1, 2}, {byKey, 1, anyPartition}, {byKey, 99, anyPartition}} {
		record := &kgo.Record{Partition: test.named}
		if err := test.defaults.apply(record); err != nil || record.Partition != test.got {
			t.Errorf("partition %d becomes %d, error %v, want %d", test.named, record.Partition, err, test.got)
		}
	}
}

func TestOutputFormats(t *testing.T) {
	record := &kgo.Record{Topic: "t", Partition: 1, Offset: 9, Key: []byte("k"), Value: []byte("v"),
		Timestamp: time.UnixMilli(0)}
	null := &kgo.Record{Topic: "t"}
	form := func(separator, delimiter, null string) outputForm {
		form := outputForm{textForm: textForm{delimiter: []byte(delimiter)}}
		if separator != "" {
			form.separator = []byte(separator)
		}
		if null != "" {
			form.null = []byte(null)
		}
		return form
	}
	coloured := form("\t", "\n", "")
	coloured.colours = true
	for _, test := range []struct {
		name, format string
		form         outputForm
		want         string
	}{
		{"values", formatText, form("", "\n", ""), "v\n\n"},
		{"keys and values", formatText, form("\t", "\n", ""), "k\tv\n\t\n"},
		{"another end of a record", formatText, form("", "\x00", ""), "v\x00\x00"},
		{"null is said", formatText, form(":", ";", "NULL"), "k:v;NULL:NULL;"},
		{"a key in colour", formatText, coloured, "\x1b[36mk\x1b[0m\tv\n\x1b[36m\x1b[0m\t\n"},
		{"a layout", `%t/%p@%o %k=%v\n`, form("", "", ""), "t/1@9 k=v\nt/0@0 =\n"},
		{"a layout that says null", `%K:%k %V:%v;`, form("", "", "nil"), "1:k 1:v;3:nil 3:nil;"},
		{"a date", `%d{go#RFC3339#};`, form("", "", ""), "1970-01-01T00:00:00Z;"},
	} {
		t.Run(test.name, func(t *testing.T) {
			output, err := newRecordOutput(test.format, test.form)
			if err != nil {
				t.Fatal(err)
			}
			line, err := output(nil, &kgo.FetchPartition{}, record)
			if err == nil && !strings.Contains(test.format, "%d") {
				line, err = output(line, &kgo.FetchPartition{}, null)
			}
			if err != nil || string(line) != test.want {
				t.Errorf("printed %q, error %v, want %q", line, err, test.want)
			}
		})
	}
}

func TestTheSchemaNamesEveryFieldOfTheJSON(t *testing.T) {
	var schema bytes.Buffer
	if err := writeSchema[topicDescriptions](&schema); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(topicDescriptions{Topics: []topicDescription{{
		Configs: []configDescription{{}}, Partitions: []partitionDescription{{Error: "e"}}, Notes: []string{""}}}})
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	eachField(decoded, func(name string) {
		if !strings.Contains(schema.String(), `"`+name+`": `) {
			t.Errorf("the schema lacks %s:\n%s", name, &schema)
		}
	})
}

func eachField(value any, visit func(name string)) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			visit(name)
			eachField(inner, visit)
		}
	case []any:
		for _, inner := range value {
			eachField(inner, visit)
		}
	}
}
