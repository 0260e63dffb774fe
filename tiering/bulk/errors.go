package bulk

import (
	"errors"
	"fmt"
	"io"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// GoneError says that an object of the snapshot is not in the bucket any more: no pin has kept it, or the pin's lease
// is over. Everything that comes before Next in the partition was delivered, and nothing of it from there on. Whoever
// makes a new snapshot may go on from there, since compaction puts other objects in the place of those that go.
type GoneError struct {
	Partition int32
	Next      int64 // offset from which on nothing was delivered
	Key       string
	Err       error
}

// Error names the object and where to go on.
func (e *GoneError) Error() string {
	return fmt.Sprintf("partition %d from offset %d on: object %s is gone", e.Partition, e.Next, e.Key)
}

// Unwrap gives the store's answer.
func (e *GoneError) Unwrap() error { return e.Err }

// DamagedError says that an object is not what it was. Everything that comes before Next in the partition was
// delivered, and nothing of it from there on.
type DamagedError struct {
	Partition int32
	Next      int64 // offset from which on nothing was delivered
	Key       string
	Err       error // says where in the object
}

// Error names the object, the place and the reason.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("partition %d from offset %d on: object %s is damaged: %s", e.Partition, e.Next, e.Key, e.Err)
}

// Unwrap gives the reason.
func (e *DamagedError) Unwrap() error { return e.Err }

// place is where a read has failed.
type place struct {
	partition int32
	next      int64
	key       string
}

// judge says what an error means for who reads on.
func judge(at place, err error) error {
	var batch *record.CorruptError
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		return &GoneError{Partition: at.partition, Next: at.next, Key: at.key, Err: err}
	case segment.IsCorrupt(err), manifest.IsCorrupt(err), errors.As(err, &batch), errors.Is(err, io.ErrUnexpectedEOF):
		return &DamagedError{Partition: at.partition, Next: at.next, Key: at.key, Err: err}
	}
	return fmt.Errorf("partition %d from offset %d on: %w", at.partition, at.next, err)
}
