package compact

import (
	"errors"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/segment"
)

// told gives an error in the terms of the log cleaner, which sets a log aside for what will not pass. Damage and
// objects that are gone stay as they are; whatever else the store, the metastore or the disk says may be over the next
// time.
func told(err error) error {
	if err == nil {
		return nil
	}
	var object *segment.CorruptError
	var batch *record.CorruptError
	if manifest.IsDamaged(err) || errors.As(err, &object) || errors.As(err, &batch) || errors.Is(err, record.ErrShort) {
		return errors.New(err.Error()) // without its code, which is that of what passes
	}
	return &passingError{err}
}

// passingError is what may be over the next time.
type passingError struct{ err error }

// Error implements error.
func (e *passingError) Error() string { return e.err.Error() }

// Unwrap gives the reason, and that the storage fails.
func (e *passingError) Unwrap() []error { return []error{e.err, kafka.KafkaStorageError} }
