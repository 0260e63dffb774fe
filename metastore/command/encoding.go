package command

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
)

// The encoding's building blocks, used for commands and for the records that the state machine keeps: unsigned counts
// and lengths are uvarints, numbers that may be negative are zigzag varints, ids are 16 raw bytes, and strings and
// lists carry their length in front. Appenders never fail; the Cursor is the matching reader.

// AppendString appends the length and the bytes of text.
func AppendString(dst []byte, text string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// AppendNullableString appends zero for nil, else one more than the length, and the bytes.
func AppendNullableString(dst []byte, text *string) []byte {
	if text == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(*text))+1)
	return append(dst, *text...)
}

// AppendBool appends one byte, 0 or 1.
func AppendBool(dst []byte, value bool) []byte {
	if value {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// AppendPartition appends topic id and partition.
func AppendPartition(dst []byte, tp kafka.TopicIDPartition) []byte {
	dst = append(dst, tp.ID[:]...)
	return binary.AppendVarint(dst, int64(tp.Partition))
}

// AppendConfigs appends a map in the order of its keys, so that equal maps have equal bytes.
func AppendConfigs(dst []byte, configs map[string]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(configs)))
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		dst = AppendString(dst, name)
		dst = AppendString(dst, configs[name])
	}
	return dst
}

// AppendBrokers appends a list of broker ids.
func AppendBrokers(dst []byte, brokers []kafka.BrokerID) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(brokers)))
	for _, broker := range brokers {
		dst = binary.AppendVarint(dst, int64(broker))
	}
	return dst
}

// AppendUUIDs appends a list of ids.
func AppendUUIDs(dst []byte, ids []kafka.UUID) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ids)))
	for i := range ids {
		dst = append(dst, ids[i][:]...)
	}
	return dst
}

// CorruptError says at which byte an encoded value stops making sense.
type CorruptError struct {
	Position int
	Reason   string
}

// Error names the place and what is wrong there.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt at byte %d: %s", e.Position, e.Reason)
}

// Cursor reads an encoded value. The first error sticks: every later read returns zero, so a decoder reads all its
// fields and asks Finish once. It never allocates more than the input could describe.
type Cursor struct {
	data     []byte
	position int
	err      *CorruptError
}

// NewCursor reads data from its beginning.
func NewCursor(data []byte) Cursor { return Cursor{data: data} }

// Finish reports the first error, or that bytes are left over.
func (c *Cursor) Finish() error {
	if c.err == nil && c.position != len(c.data) {
		c.Fail(fmt.Sprintf("%d bytes too many", len(c.data)-c.position))
	}
	if c.err != nil {
		return c.err
	}
	return nil
}

// Fail records an error at the current place, unless there is one already.
func (c *Cursor) Fail(reason string) {
	if c.err == nil {
		c.err = &CorruptError{Position: c.position, Reason: reason}
	}
}

// Remaining is the number of bytes not read yet.
func (c *Cursor) Remaining() int { return len(c.data) - c.position }

func (c *Cursor) take(count int) []byte {
	if c.err != nil {
		return nil
	}
	if count > c.Remaining() {
		c.Fail(fmt.Sprintf("%d bytes expected, %d are left", count, c.Remaining()))
		return nil
	}
	taken := c.data[c.position : c.position+count]
	c.position += count
	return taken
}

// Uint8 reads one byte.
func (c *Cursor) Uint8() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

// Bool reads one byte that must be 0 or 1.
func (c *Cursor) Bool() bool {
	b := c.Uint8()
	if b > 1 {
		c.Fail("neither true nor false")
	}
	return b == 1
}

// Uvarint reads an unsigned number.
func (c *Cursor) Uvarint() uint64 {
	if c.err != nil {
		return 0
	}
	value, size := binary.Uvarint(c.data[c.position:])
	if size <= 0 {
		c.Fail("not a varint")
		return 0
	}
	c.position += size
	return value
}

// Int64 reads a number that may be negative.
func (c *Cursor) Int64() int64 {
	if c.err != nil {
		return 0
	}
	value, size := binary.Varint(c.data[c.position:])
	if size <= 0 {
		c.Fail("not a varint")
		return 0
	}
	c.position += size
	return value
}

// Int32 reads a number that may be negative and must fit 32 bits.
func (c *Cursor) Int32() int32 {
	value := c.Int64()
	if int64(int32(value)) != value {
		c.Fail(fmt.Sprintf("%d does not fit 32 bits", value))
		return 0
	}
	return int32(value)
}

// Count reads the length of a list whose elements take at least minBytes each, so that a wrong length is found before
// anything is reserved for it.
func (c *Cursor) Count(minBytes int) int {
	count := c.Uvarint()
	if c.err == nil && count > uint64(c.Remaining()/minBytes) {
		c.Fail(fmt.Sprintf("a list of %d does not fit the %d bytes left", count, c.Remaining()))
		return 0
	}
	return int(count)
}

// String reads a string.
func (c *Cursor) String() string { return string(c.take(c.Count(1))) }

// NullableString reads a string that may be nil.
func (c *Cursor) NullableString() *string {
	length := c.Uvarint()
	if c.err != nil || length == 0 {
		return nil
	}
	if length-1 > uint64(c.Remaining()) {
		c.Fail(fmt.Sprintf("a string of %d does not fit the %d bytes left", length-1, c.Remaining()))
		return nil
	}
	text := string(c.take(int(length - 1)))
	return &text
}

// UUID reads an id.
func (c *Cursor) UUID() kafka.UUID {
	var id kafka.UUID
	copy(id[:], c.take(len(id)))
	return id
}

// Partition reads topic id and partition.
func (c *Cursor) Partition() kafka.TopicIDPartition {
	return kafka.TopicIDPartition{ID: c.UUID(), Partition: c.Int32()}
}

// LeaderEpoch reads a leader epoch.
func (c *Cursor) LeaderEpoch() kafka.LeaderEpoch { return kafka.LeaderEpoch(c.Int32()) }

// Broker reads a broker id.
func (c *Cursor) Broker() kafka.BrokerID { return kafka.BrokerID(c.Int32()) }

// Brokers reads a list of broker ids; an empty one is nil.
func (c *Cursor) Brokers() []kafka.BrokerID {
	return readList(c, 1, (*Cursor).Broker)
}

// UUIDs reads a list of ids; an empty one is nil.
func (c *Cursor) UUIDs() []kafka.UUID {
	return readList(c, len(kafka.UUID{}), (*Cursor).UUID)
}

// Configs reads a map written by AppendConfigs; an empty one is nil.
func (c *Cursor) Configs() map[string]string {
	count := c.Count(2)
	if count == 0 {
		return nil
	}
	configs := make(map[string]string, count)
	previous := ""
	for i := range count {
		name := c.String()
		if i > 0 && name <= previous {
			c.Fail("settings are not in order")
		}
		if c.err != nil {
			return nil
		}
		configs[name] = c.String()
		previous = name
	}
	return configs
}

// readList reads a count and that many elements of at least minBytes; an empty list is nil.
func readList[T any](c *Cursor, minBytes int, read func(*Cursor) T) []T {
	count := c.Count(minBytes)
	if count == 0 {
		return nil
	}
	list := make([]T, 0, count)
	for range count {
		element := read(c)
		if c.err != nil {
			return nil
		}
		list = append(list, element)
	}
	return list
}
