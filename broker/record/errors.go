package record

import (
	"errors"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
)

// ErrNotOneBatch says that a producer's data is not what it has to be: exactly one record batch of format version 2.
var ErrNotOneBatch = errors.New("the data of a partition must be exactly one record batch of format version 2")

// maxRecordErrors bounds how many records of a refused batch are named: a batch may hold a million, and the answer
// must not be larger than the request. The first ones are what a person needs.
const maxRecordErrors = 100

// RecordError is why one record of a batch was refused.
type RecordError struct {
	BatchIndex int32 // of the record in its batch, from 0
	Message    string
}

// InvalidRecordsError refuses a whole batch and names the records that are to blame.
type InvalidRecordsError struct {
	Code         kafka.Errno // InvalidRecord or InvalidTimestamp
	RecordErrors []RecordError
	Total        int // at least len(RecordErrors), which is bounded
}

// Error names the first record; a producer shows it to a person.
func (e *InvalidRecordsError) Error() string {
	first := e.RecordErrors[0]
	if e.Total == 1 {
		return fmt.Sprintf("record %d is refused: %s", first.BatchIndex, first.Message)
	}
	return fmt.Sprintf("%d records are refused, first record %d: %s", e.Total, first.BatchIndex, first.Message)
}

// Unwrap gives the error its code.
func (e *InvalidRecordsError) Unwrap() error { return e.Code }

// invalid refuses a batch as a whole.
func invalid(format string, args ...any) error {
	return refused(kafka.InvalidRecord, format, args...)
}

// refused is an error with a code of Kafka's and a sentence that says what is wrong with this batch.
func refused(code kafka.Errno, format string, args ...any) error {
	return fmt.Errorf("%w (%w)", code, fmt.Errorf(format, args...))
}
