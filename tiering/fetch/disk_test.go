package fetch

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/cache"
)

// lockedStore is a store that several goroutines use.
type lockedStore struct {
	mu sync.Mutex // guards the field below
	s  store
}

func (l *lockedStore) Get(key []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s.Get(key)
}

func (l *lockedStore) Set(key, value []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s.Set(key, value)
}

func (l *lockedStore) Delete(key []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s.Delete(key)
}

func (l *lockedStore) Scan(prefix []byte, visit func(key, value []byte) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s.Scan(prefix, visit)
}

// disk is what a cache stands on.
type disk struct {
	files *vfs.Mem
	store *lockedStore
}

func newDisk() *disk { return &disk{files: vfs.NewMem(), store: &lockedStore{s: store{}}} }

// cached has a reader use a cache of so many bytes.
func (r *remote) cached(d *disk, bytes int64) func(*Options) {
	return func(o *Options) {
		o.Cache = cache.New(cache.Options{
			Logger: slog.New(slog.DiscardHandler), FS: d.files, Dir: "cache", Store: d.store,
			SyncStore: func() error { return nil }, Bytes: bytes,
		})
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- o.Cache.Run(ctx) }()
		r.t.Cleanup(func() { stop(); must(r.t, <-done) })
		synctest.Wait()
	}
}

// scan reads everything in answers of so many bytes, compares it, and tells how many of the answers came out of files.
func (r *remote) scan(reader *Reader, maxBytes int) (answers, files int) {
	r.t.Helper()
	want := bytes.Join(r.data, nil)
	for offset := int64(0); offset < r.next; {
		result, err := r.read(reader, offset, maxBytes)
		must(r.t, err)
		data := bytesOf(r.t, result)
		if !bytes.HasPrefix(want, data) || len(data) == 0 {
			r.t.Fatalf("what was read from %d on is not what was written", offset)
		}
		answers++
		if result.Region.Size() > 0 {
			files++
		}
		want, offset = want[len(data):], result.NextOffset
		result.Release()
		synctest.Wait()
	}
	return answers, files
}

// chunkGets counts requests for chunks since the last time.
func (r *remote) chunkGets(t *testing.T) (chunks int) {
	t.Helper()
	for _, request := range r.requests() {
		if strings.Contains(request, "chunk") {
			chunks++
		}
	}
	return chunks
}

// What is downloaded a second time is kept on the disk: the third reader costs no request, and is sent files.
func TestWhatIsReadAgainComesFromTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := newRemote(t), newDisk()
		r.bigSegment(20) // six chunks
		r.add(0, batchOf(1, 300, 200), batchOf(300, 90_000, 300), batchOf(1, 5*mib, 900))
		little := func(o *Options) { o.MemoryBytes, o.ReadAheadBytes = 8*mib, 0 }
		reader := r.reader(little, r.cached(d, 64*mib))
		for pass, want := range []int{8, 8, 0, 0} {
			answers, files := r.scan(reader, mib)
			if got := r.chunkGets(t); got != want {
				t.Errorf("pass %d: %d requests", pass, got)
			}
			if pass >= 2 && files < answers/3 { // others cross a border, or are still in memory
				t.Errorf("pass %d: %d of %d answers are files", pass, files, answers)
			}
		}
		// Files hold no memory, however many there are.
		for offset := int64(0); offset < 100; offset += 10 {
			result, err := r.read(reader, offset, mib)
			must(t, err)
			if result.Region.Size() > 0 {
				defer result.Release()
			} else {
				result.Release()
			}
		}
		if held := r.metric("firn_tier_fetch_held_bytes"); held != 0 {
			t.Errorf("%v bytes are held", held)
		}
	})
}

// Look-ups by time read records, wherever they are.
func TestLookUpsReadTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := newRemote(t), newDisk()
		r.bigSegment(20)
		reader := r.reader(func(o *Options) { o.MemoryBytes, o.ReadAheadBytes = 8*mib, 0 }, r.cached(d, 64*mib))
		for range 2 {
			r.scan(reader, mib)
		}
		r.requests()
		for _, timestamp := range []int64{0, 5, 77, 133, 199} {
			found, ok, err := reader.OffsetForTimestamp(context.Background(), tp, timestamp)
			if err != nil || !ok || found.Offset != timestamp {
				t.Errorf("time %d: %+v %v %v", timestamp, found, ok, err)
			}
		}
		if got := r.requests(); len(got) != 0 {
			t.Errorf("%q", got)
		}
	})
}

// A file that is damaged costs one request, and nobody sees it.
func TestADamagedFileIsDownloadedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := newRemote(t), newDisk()
		r.bigSegment(20)
		little := func(o *Options) { o.MemoryBytes, o.ReadAheadBytes, o.Registerer = 8*mib, 0, nil }
		reader := r.reader(little, r.cached(d, 64*mib))
		for range 2 {
			r.scan(reader, mib)
		}
		names, err := d.files.List("cache")
		must(t, err)
		for _, name := range names {
			if name == "owner" {
				continue
			}
			file, err := d.files.OpenReadWrite("cache/" + name)
			must(t, err)
			_, err = file.WriteAt([]byte("damage"), 2*mib)
			must(t, err)
			must(t, file.Close())
			break
		}
		reader = r.reader(little, r.cached(d, 64*mib)) // only a start looks at what is there
		r.requests()
		r.scan(reader, mib)
		if got := r.chunkGets(t); got != 1 {
			t.Errorf("%d requests", got)
		}
	})
}
