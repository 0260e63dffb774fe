package storage

import (
	"log/slog"
	"path"
	"sync"
	"sync/atomic"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// environment is what all logs of a manager share.
type environment struct {
	fs        vfs.FS
	store     Store
	syncStore func() error
	unsynced  atomic.Bool // a checkpoint was saved since syncStore was called last
	events    Events
	logger    *slog.Logger
	metrics   *metrics
	expireMs  atomic.Int64 // producer.id.expiration.ms
	reserve   int64        // firn.log.dirs.reserve.bytes
	// metadata watches the disk of the metadata directory; its path is empty if nothing has to be left there.
	metadata     spaceWatch
	metadataFull func() bool
	files        *openCache[vfs.File]
	maps         *openCache[*indexMaps]
	lookup       record.Lookup
	scans        sync.Pool // of *batchScan, for look-ups
	bigScans     sync.Pool // of *batchScan, for recovery
	remote       func(id kafka.TopicIDPartition) (RemoteRange, bool)
}

func (e *environment) scan() *batchScan {
	if scan, ok := e.scans.Get().(*batchScan); ok {
		return scan
	}
	return newBatchScan(scanBufferSize)
}

func (e *environment) bigScan() *batchScan {
	if scan, ok := e.bigScans.Get().(*batchScan); ok {
		return scan
	}
	return newBatchScan(recoveryBufferSize)
}

// put gives a scan of either size back.
func (e *environment) put(scan *batchScan) {
	scan.file, scan.resident = nil, false
	if len(scan.buffer) == scanBufferSize {
		e.scans.Put(scan)
		return
	}
	e.bigScans.Put(scan)
}

// folder is where a log's files lie. It moves when the log is deleted.
type folder struct {
	parent string
	name   atomic.Pointer[string]
}

func newFolder(parent, name string) *folder {
	f := &folder{parent: parent}
	f.name.Store(&name)
	return f
}

func (f *folder) path() string { return path.Join(f.parent, *f.name.Load()) }

func (f *folder) file(name string) string { return path.Join(f.path(), name) }

func (e *environment) indexRebuilt(s *segment, reason error) {
	e.metrics.indexRebuilds.Inc()
	e.logger.Warn("the indexes of a segment were made anew", "segment", s.path(logSuffix), "reason", reason)
	if e.events.IndexRebuilt != nil {
		e.events.IndexRebuilt(s.path(logSuffix), reason)
	}
}
