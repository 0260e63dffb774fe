package wire

import (
	"encoding/binary"

	"github.com/firnlog/firn/internal/kafka"
)

// appender builds the bytes of a response in one form of lengths: compact (flexible versions) or not.
type appender struct {
	dst      []byte
	flexible bool
}

func (a *appender) int16(v int16) { a.dst = binary.BigEndian.AppendUint16(a.dst, uint16(v)) }
func (a *appender) int32(v int32) { a.dst = binary.BigEndian.AppendUint32(a.dst, uint32(v)) }
func (a *appender) int64(v int64) { a.dst = binary.BigEndian.AppendUint64(a.dst, uint64(v)) }

func (a *appender) errno(code kafka.Errno) { a.int16(int16(code)) }

func (a *appender) uuid(id kafka.UUID) { a.dst = append(a.dst, id[:]...) }

func (a *appender) uvarint(v uint32) { a.dst = binary.AppendUvarint(a.dst, uint64(v)) }

// arrayLength appends a count; −1 is null.
func (a *appender) arrayLength(count int) {
	if a.flexible {
		a.uvarint(uint32(count + 1))
		return
	}
	a.int32(int32(count))
}

// bytesLength appends the length of a bytes field.
func (a *appender) bytesLength(length int64) {
	if a.flexible {
		a.uvarint(uint32(length + 1))
		return
	}
	a.int32(int32(length))
}

func (a *appender) string(s string) {
	if a.flexible {
		a.uvarint(uint32(len(s) + 1))
	} else {
		a.int16(int16(len(s)))
	}
	a.dst = append(a.dst, s...)
}

// nullString appends a nullable string that is null.
func (a *appender) nullString() {
	if a.flexible {
		a.uvarint(0)
	} else {
		a.int16(-1)
	}
}

// emptyAsNull appends a nullable string; the empty one as null.
func (a *appender) emptyAsNull(s string) {
	if s == "" {
		a.nullString()
		return
	}
	a.string(s)
}

// noTags ends a structure that has no tagged field, where the version has tagged fields at all.
func (a *appender) noTags() {
	if a.flexible {
		a.dst = append(a.dst, 0)
	}
}

// tag appends the number and size of a tagged field; size bytes of content must follow.
func (a *appender) tag(number uint32, size int) {
	a.uvarint(number)
	a.uvarint(uint32(size))
}

// Leader is who leads a partition now: a hint to a client that asked somebody else (KIP-951).
type Leader struct {
	ID    kafka.BrokerID
	Epoch kafka.LeaderEpoch
}

// Endpoint is where a broker can be reached: it goes with leader hints, so that the client need not ask for metadata.
type Endpoint struct {
	ID   kafka.BrokerID
	Host string
	Port int32
	Rack string // empty: none
}

// leaderTag appends a tagged field that holds a leader: two int32 and the structure's own empty tags.
func (a *appender) leaderTag(number uint32, leader Leader) {
	a.tag(number, 4+4+1)
	a.int32(int32(leader.ID))
	a.int32(int32(leader.Epoch))
	a.noTags()
}

// endpointTags ends a response with tagged field 0 for endpoints if there are any, else with no tagged fields.
func (a *appender) endpointTags(endpoints []Endpoint) {
	if len(endpoints) == 0 {
		a.noTags()
		return
	}
	content := appender{flexible: true}
	content.arrayLength(len(endpoints))
	for i := range endpoints {
		content.int32(int32(endpoints[i].ID))
		content.string(endpoints[i].Host)
		content.int32(endpoints[i].Port)
		content.emptyAsNull(endpoints[i].Rack)
		content.noTags()
	}
	a.uvarint(1) // one tagged field
	a.tag(0, len(content.dst))
	a.dst = append(a.dst, content.dst...)
}
