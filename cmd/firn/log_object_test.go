package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/segment"
)

// bucketOfTwo is a directory bucket with a segment of offsets 4 to 7 and a leaf that lists it twice over.
func bucketOfTwo(t *testing.T) (bucket, object, leaf string) {
	t.Helper()
	bucket, object = segmentObject(t)
	key := segment.Key{Kind: segment.KindLeaf, ClusterID: kafka.UUID{1},
		Partition: kafka.TopicIDPartition{ID: kafka.TopicID{2}}, LeaderEpoch: 3, UploadID: kafka.UUID{8}}
	entry := command.SegmentEntry{BaseOffset: 4, EndOffset: 8, UploadID: kafka.UUID{9}, DataBytes: 1, ObjectBytes: 2,
		MinTimestamp: -1, MaxTimestamp: -1, MaxTimestampOffset: -1, FirstAppendedAt: -1, LastAppendedAt: -1,
		Flags: command.HasAbortedTransactions}
	later := entry
	later.BaseOffset, later.EndOffset, later.UploadID = 8, 9, kafka.UUID{10}
	data, reference := manifest.Seal(key, "flights", 0, []command.Item{entry, later})
	leaf = filepath.Join(bucket, filepath.FromSlash(segment.KeyOfItem(key.ClusterID, key.Partition, reference).String()))
	if err := os.MkdirAll(filepath.Dir(leaf), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(leaf, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return bucket, object, leaf
}

// s3Of is a store, named by its URL, that shows a folder of this machine as bucket "b". It notes the ranges it is asked
// for, and knows nothing but listings and reading by range.
func s3Of(t *testing.T, folder string) (location string, ranges func() []string) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, ofBucket := strings.CutPrefix(r.URL.Path, "/b")
		switch {
		case r.Method != http.MethodGet || !ofBucket:
			t.Errorf("a reader asked for %s %s", r.Method, r.URL)
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Query().Has("list-type"):
			listFolder(t, w, folder, r.URL.Query().Get("prefix"))
		default:
			mu.Lock()
			asked = append(asked, r.Header.Get("Range"))
			mu.Unlock()
			data, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(key)))
			if err != nil {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			serveRange(t, w, r, data)
		}
	}))
	t.Cleanup(server.Close)
	return "s3://b?endpoint=" + server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
}

func serveRange(t *testing.T, w http.ResponseWriter, r *http.Request, data []byte) {
	first, last, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-")
	from, fromErr := strconv.Atoi(first)
	to, toErr := strconv.Atoi(last)
	if fromErr != nil || toErr != nil || from > to || to >= len(data) {
		t.Errorf("asked for %q of %d bytes", r.Header.Get("Range"), len(data))
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(data)))
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write(data[from : to+1])
}

func listFolder(t *testing.T, w http.ResponseWriter, folder, prefix string) {
	type content struct {
		Key  string
		Size int64
	}
	answer := struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Name     string
		Contents []content
	}{Name: "b"}
	err := filepath.Walk(folder, func(name string, info os.FileInfo, err error) error {
		key, relErr := filepath.Rel(folder, name)
		if err == nil && relErr == nil && !info.IsDir() && strings.HasPrefix(key, prefix) {
			answer.Contents = append(answer.Contents, content{key, info.Size()})
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := xml.NewEncoder(w).Encode(answer); err != nil {
		t.Error(err)
	}
}

func TestObjectsAreDumpedFromTheirBucket(t *testing.T) {
	bucket, object, leaf := bucketOfTwo(t)
	objectKey, leafKey := strings.TrimPrefix(object, bucket+"/"), strings.TrimPrefix(leaf, bucket+"/")
	location, ranges := s3Of(t, bucket)
	at := func(key string) string { return strings.Replace(location, "s3://b", "s3://b/"+key, 1) }
	both := "manifest 4,segment 4,segment 8,object 4,batch 4,batch 6"
	for _, test := range []struct{ place, want string }{
		{leaf, "manifest 4,segment 4,segment 8"},
		{bucket, both},
		{"file://" + leaf, "manifest 4,segment 4,segment 8"},
		{"file://" + bucket + "/", both},
		{at(leafKey), "manifest 4,segment 4,segment 8"},
		{at(objectKey), "object 4,batch 4,batch 6"},
		{at(filepath.Dir(objectKey) + "/"), "object 4,batch 4,batch 6"},
		{at(objectKey[:strings.IndexByte(objectKey, '/')+1]), both},
		{location, both},
	} {
		got := firn(t, "", "log", "dump", test.place, "-f", "json")
		if types := strings.Join(dumpedTypes(t, got.out), ","); got.status != 0 || types != test.want {
			t.Errorf("%s: status %d, error %q, dumped %s, want %s", test.place, got.status, got.err, types, test.want)
		}
		text := firn(t, "", "log", "dump", test.place)
		if lines := strings.Count(text.out, "\n"); text.status != 0 || lines != strings.Count(test.want, ",")+1 {
			t.Errorf("%s: status %d, error %q, printed\n%s", test.place, text.status, text.err, text.out)
		}
		verified := firn(t, "", "log", "verify", test.place)
		if want := fmt.Sprint("verified ", 1+strings.Count(test.want, ",object"), " file"); verified.status != 0 ||
			!strings.HasPrefix(verified.out, want) {
			t.Errorf("%s: verified with status %d, error %q, %q", test.place, verified.status, verified.err, verified.out)
		}
	}
	if slices.Contains(ranges(), "") {
		t.Errorf("an object was read whole: %q", ranges())
	}
	got := firn(t, "", "log", "dump", at(objectKey)).out
	if want := "Object: s3://b/" + objectKey + " clusterId: "; !strings.HasPrefix(got, want) {
		t.Errorf("printed\n%s\nwant %s", got, want)
	}
	for place, want := range map[string]string{
		at(objectKey[:len(objectKey)-1]):         "names no object: a folder ends in a slash",
		at(filepath.Dir(objectKey)):              "names no object: a folder ends in a slash",
		at("folder/x.seg"):                       "begins with the id of a cluster",
		"file://" + bucket + "/missing/":         "no such file",
		"s3://b/x?endpoint=http://127.0.0.1:1/x": "the endpoint",
		"gs://b/" + objectKey:                    "is not the URL of an object store",
	} {
		for _, verb := range []string{"dump", "verify"} {
			got := firn(t, "", "log", verb, place)
			if got.status != exitFailed || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 {
				t.Errorf("%s %s: status %d, error %q, want %q", verb, place, got.status, got.err, want)
			}
		}
	}
}

func TestDamagedObjectsOfABucketAreTold(t *testing.T) {
	bucket, object, leaf := bucketOfTwo(t)
	location, _ := s3Of(t, bucket)
	flipByte(t, leaf, 60)
	moved := strings.Replace(object, "00000004-", "00000003-", 1)
	data, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(moved, data, 0o600); err != nil {
		t.Fatal(err)
	}
	flipByte(t, object, 70)
	got := firn(t, "", "log", "verify", location)
	for _, want := range []string{
		".leaf at 0: the checksum of the items", ".seg at 0: corrupt record batch", ": the tail belongs to ",
		"verified 3 files",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is not in\n%s", want, got.out)
		}
	}
	if got.status != exitFailed || !strings.Contains(got.err, "3 problems found in 3 files") {
		t.Errorf("status %d, error %q", got.status, got.err)
	}
	if got := firn(t, "", "log", "dump", leaf); got.status != exitFailed || !strings.Contains(got.err, leaf) {
		t.Errorf("dumped with status %d, error %q", got.status, got.err)
	}
}

func TestAnObjectIsReadInBlocks(t *testing.T) {
	content := make([]byte, 2*blockBytes+100)
	for i := range content {
		content[i] = byte(i >> 8)
	}
	gets := 0
	reader := &blockReader{size: int64(len(content)), get: func(position int64, dst []byte) error {
		gets++
		copy(dst, content[position:])
		return nil
	}}
	for _, step := range []struct{ position, size, gets int }{
		{0, 10, 1}, {blockBytes - 10, 30, 2}, {100, blockBytes, 2}, {blockBytes + 5, 100, 2},
		{2*blockBytes - 50, 150, 3}, {blockBytes + 5, 10, 3}, {0, 10, 4},
	} {
		got := make([]byte, step.size)
		if n, err := reader.ReadAt(got, int64(step.position)); n != step.size || err != nil {
			t.Fatalf("%d bytes at %d: %d, %v", step.size, step.position, n, err)
		}
		if !bytes.Equal(got, content[step.position:][:step.size]) || gets != step.gets {
			t.Errorf("%d bytes at %d are others, or took %d requests, not %d", step.size, step.position, gets, step.gets)
		}
	}
	if n, err := reader.ReadAt(make([]byte, 10), int64(len(content))-4); n != 4 || err == nil {
		t.Errorf("past the end: %d, %v", n, err)
	}
}
