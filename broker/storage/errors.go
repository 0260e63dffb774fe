package storage

import (
	"errors"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
)

// ErrNotLocal says that an offset is at or above the log start offset but below the local one: a remote segment holds
// it. It is not for clients.
var ErrNotLocal = errors.New("the offset is not on local disk")

// errSegmentRemoved says that a segment was dropped between the look-up and its use; the look-up is done again.
var errSegmentRemoved = errors.New("segment removed")

// errIndexMismatch says that an index points to a place where no such batch begins: the index is rebuilt.
var errIndexMismatch = errors.New("the offset index does not fit the log")

// CorruptError says where a file of a log stops being what it should be. To clients it is a KAFKA_STORAGE_ERROR.
type CorruptError struct {
	File     string
	Position int64
	Err      error
}

// Error prints file, position and reason.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is corrupt at position %d: %v", e.File, e.Position, e.Err)
}

// Unwrap puts the code for clients before the cause, which may carry the code of a corrupt request.
func (e *CorruptError) Unwrap() []error { return []error{kafka.KafkaStorageError, e.Err} }

// MissingError says that a log lacks offsets which had been flushed: files were lost or removed by hand.
type MissingError struct {
	Folder    string
	Start     int64
	EndOffset int64
}

// Error prints the range.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s lacks the offsets [%d, %d), which had been flushed", e.Folder, e.Start, e.EndOffset)
}

// Unwrap gives the error the code for clients.
func (e *MissingError) Unwrap() error { return kafka.KafkaStorageError }

// storageError wraps a failure of the disk with what was being done and the code for clients.
func storageError(doing string, err error) error {
	if errors.Is(err, kafka.KafkaStorageError) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, kafka.KafkaStorageError, err)
}

// ErrNoSpace says that an append was refused because a disk is nearly full. It passes by itself once there is room.
var ErrNoSpace = fmt.Errorf("the disk is nearly full: %w", kafka.KafkaStorageError)
