package objectstore

import (
	"errors"
	"strings"
)

// What an *Error can be asked for with errors.Is.
var (
	// ErrNotFound: the object (or the bucket) does not exist.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable: the store could not do it now (overload, network, its own failure); the same request may succeed
	// later. What a failed write did is unknown.
	ErrUnavailable = errors.New("store unavailable")
	// ErrDenied: the credentials do not allow it.
	ErrDenied = errors.New("access denied")
	// ErrInvalidKey: the key breaks the rules of CheckKey.
	ErrInvalidKey = errors.New("invalid key")
	// ErrChecksum: the bytes put are not those whose checksum was declared.
	ErrChecksum = errors.New("checksum mismatch")
)

// Error says which request failed, where and how. Kind is one of the errors above or nil, which means that the request
// itself is at fault and repeating it is useless.
type Error struct {
	Operation Operation
	Bucket    string // where, as a person would name it: s3://name, a folder, memory
	Key       string
	Status    string // what the store answered: an HTTP status and code, or a word; it is a metric's label
	Kind      error
	Attempts  int // how often it was tried, if something below has tried again by itself; else 0
	Err       error
}

// Error prints operation, place, status and cause in one line.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(string(e.Operation))
	text.WriteString(" " + e.Bucket)
	if e.Key != "" {
		text.WriteString("/" + e.Key)
	}
	if e.Status != "" {
		text.WriteString(": " + e.Status)
	}
	if e.Err != nil {
		text.WriteString(": " + e.Err.Error())
	}
	return text.String()
}

// Unwrap gives errors.Is both the kind and the cause.
func (e *Error) Unwrap() []error {
	causes := make([]error, 0, 2)
	for _, cause := range []error{e.Kind, e.Err} {
		if cause != nil {
			causes = append(causes, cause)
		}
	}
	return causes
}

// StatusOf is the status an error carries, for logs and metrics.
func StatusOf(err error) string {
	var failure *Error
	if errors.As(err, &failure) && failure.Status != "" {
		return failure.Status
	}
	return "error"
}
