package storage

import "github.com/firnlog/firn/internal/vfs"

// RemoteReadRequest asks the remote part of a log for whole batches, as ReadRequest asks the local part.
type RemoteReadRequest struct {
	// Offset is where to begin: the batch that holds it is the first one returned.
	Offset int64
	// MaxBytes bounds the answer; with AtLeastOne the first batch is returned even if it is larger (KIP-74).
	MaxBytes   int
	AtLeastOne bool
	// UpTo is exclusive: the high watermark or the last stable offset of the reader.
	UpTo int64
}

// RemoteReadResult is what a remote read found: bytes in memory, or a range of a file, never both. They stay valid
// until Release, which the receiver calls exactly once; the region has no reference of its own.
type RemoteReadResult struct {
	Data        []byte
	Region      vfs.Region
	FirstOffset int64
	NextOffset  int64
	// Aborted are the aborted transactions that overlap the batches from the request's offset on, by their first offsets.
	Aborted []AbortedTransaction
	Release func()
}

// Size is the number of bytes of records.
func (r *RemoteReadResult) Size() int { return len(r.Data) + int(r.Region.Size()) }
