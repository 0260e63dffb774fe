package record

import (
	"fmt"
	"math"

	"github.com/firnlog/firn/internal/kafka"
)

// recordCheck applies the rules for single records while somebody walks over them, and finds the largest timestamp.
type recordCheck struct {
	baseTimestamp     int64
	oldest, newest    int64 // what a CreateTime may be
	requireKeys       bool
	index             int32 // of the next record
	maxTimestamp      int64
	maxTimestampIndex int32
	refusals          *InvalidRecordsError // nil as long as no record is refused
}

func newRecordCheck(b Batch, opts Options) recordCheck {
	check := recordCheck{
		baseTimestamp: b.BaseTimestamp(),
		oldest:        math.MinInt64,
		newest:        math.MaxInt64,
		requireKeys:   opts.RequireKeys,
		maxTimestamp:  NoTimestamp,
	}
	// Under LogAppendTime the broker's time replaces the producer's, so that is not judged.
	if !opts.TimestampLogAppend {
		check.oldest, check.newest = timestampBounds(opts)
	}
	return check
}

// timestampBounds are the oldest and the newest CreateTime that a topic accepts.
func timestampBounds(opts Options) (oldest, newest int64) {
	oldest, newest = math.MinInt64, math.MaxInt64
	if opts.Now >= math.MinInt64+opts.BeforeMaxMs && opts.BeforeMaxMs != math.MaxInt64 {
		oldest = opts.Now - opts.BeforeMaxMs
	}
	if opts.Now <= math.MaxInt64-opts.AfterMaxMs {
		newest = opts.Now + opts.AfterMaxMs
	}
	return oldest, newest
}

// record judges the next record. What it returns ends the walk; a record that only breaks a rule of the topic is noted
// and the walk goes on, since the producer wants to know about all of them.
func (c *recordCheck) record(offsetDelta int32, timestampDelta int64, hasKey bool) error {
	if offsetDelta != c.index {
		return invalid("record %d has the offset delta %d", c.index, offsetDelta)
	}
	timestamp := c.baseTimestamp + timestampDelta
	if timestamp > c.maxTimestamp {
		c.maxTimestamp, c.maxTimestampIndex = timestamp, c.index
	}
	if c.requireKeys && !hasKey {
		c.refuse(kafka.InvalidRecord, "a compacted topic takes no record without a key")
	} else if !c.inBounds(timestamp) {
		c.refuse(kafka.InvalidTimestamp, c.outOfBounds(timestamp))
	}
	c.index++
	return nil
}

// inBounds lets a record without a timestamp pass, as Kafka does.
func (c *recordCheck) inBounds(timestamp int64) bool {
	return timestamp >= c.oldest && timestamp <= c.newest || timestamp == NoTimestamp
}

func (c *recordCheck) outOfBounds(timestamp int64) string {
	return fmt.Sprintf("timestamp %d is not between %d and %d", timestamp, c.oldest, c.newest)
}

// refuse notes the current record. One bad timestamp makes the whole answer INVALID_TIMESTAMP, as with Kafka.
func (c *recordCheck) refuse(code kafka.Errno, message string) {
	if c.refusals == nil {
		c.refusals = &InvalidRecordsError{Code: code}
	}
	if code == kafka.InvalidTimestamp {
		c.refusals.Code = code
	}
	c.refusals.Total++
	if len(c.refusals.RecordErrors) < maxRecordErrors {
		c.refusals.RecordErrors = append(c.refusals.RecordErrors, RecordError{BatchIndex: c.index, Message: message})
	}
}

// err is the verdict after the last record.
func (c *recordCheck) err() error {
	if c.refusals != nil {
		return c.refusals
	}
	return nil
}

// walk checks count records, which must be all there are.
func (c *recordCheck) walk(records *cursor, count int32) error {
	var record Record
	for range count {
		if !records.next(&record) {
			return c.malformed(records)
		}
		if err := c.record(record.OffsetDelta, record.TimestampDelta, record.Key != nil); err != nil {
			return err
		}
	}
	if !records.atEnd() {
		return c.malformed(records)
	}
	return nil
}

// malformed refuses a batch whose next record cannot be read. A checksum that was right says that the producer wrote
// it like that, so it is no corruption, which would make the producer try again.
func (c *recordCheck) malformed(records *cursor) error {
	if records.err != nil {
		return undecodable(records.err)
	}
	return invalid("record %d cannot be read: %s", c.index, records.reason)
}
