package metastore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"

	"github.com/firnlog/firn/metastore/state"
)

// A snapshot is the content of the replicated spaces:
//
//	8 bytes  "firnmeta"
//	1 byte   version, 1
//	8 bytes  applied index, big endian
//	per key, in order:
//	  uvarint  length of the key, and the key with its space byte
//	  uvarint  length of the value, and the value
//	uvarint  0, as no key is empty
//	8 bytes  number of keys, big endian
//	4 bytes  CRC32C of everything before it, big endian
const (
	snapshotMagic      = "firnmeta"
	snapshotVersion    = 1
	snapshotHeaderSize = len(snapshotMagic) + 1 + 8

	// maxSnapshotKey and maxSnapshotValue bound what a damaged length can make the reader reserve. Keys have a few
	// dozen bytes, or a topic's name; the largest values are topics with all their settings.
	maxSnapshotKey   = 4 << 10
	maxSnapshotValue = 64 << 20
	// restoreBatchBytes is how much is written at once while restoring.
	restoreBatchBytes = 1 << 20
)

// writeSnapshot writes the replicated spaces of a frozen database.
func writeSnapshot(sink io.Writer, frozen *state.Snapshot) error {
	value, err := frozen.Get(state.SpaceApplied, nil)
	if err != nil {
		return fmt.Errorf("read the applied index: %w", err)
	}
	index, err := parseNumber("the applied index", value)
	if err != nil {
		return err
	}
	checksum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	w := bufio.NewWriterSize(io.MultiWriter(sink, checksum), 64<<10)
	header := append([]byte(snapshotMagic), snapshotVersion)
	// A buffered writer keeps its first error and gives it back at the flush.
	_, _ = w.Write(binary.BigEndian.AppendUint64(header, uint64(index)))
	var keys uint64
	for _, space := range state.ReplicatedSpaces() {
		err := frozen.Scan(space, state.Range{}, func(key, value []byte) error {
			keys++
			record := binary.AppendUvarint(nil, uint64(len(key))+1)
			record = append(append(record, byte(space)), key...)
			record = binary.AppendUvarint(record, uint64(len(value)))
			_, err := w.Write(append(record, value...))
			return err
		})
		if err != nil {
			return fmt.Errorf("write a snapshot of the metadata: %w", err)
		}
	}
	_, _ = w.Write(binary.BigEndian.AppendUint64([]byte{0}, keys))
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write a snapshot of the metadata: %w", err)
	}
	if _, err := sink.Write(checksum.Sum(nil)); err != nil {
		return fmt.Errorf("write a snapshot of the metadata: %w", err)
	}
	return nil
}

// snapshotReader reads a snapshot's stream.
type snapshotReader struct {
	source   *bufio.Reader
	checksum hash.Hash32
	keys     uint64
}

// openSnapshot reads the header and gives the index of the last command in the snapshot.
func openSnapshot(source io.Reader) (*snapshotReader, uint64, error) {
	r := &snapshotReader{
		source:   bufio.NewReaderSize(source, 64<<10),
		checksum: crc32.New(crc32.MakeTable(crc32.Castagnoli)),
	}
	header, err := r.take(uint64(snapshotHeaderSize))
	switch {
	case err != nil:
		return nil, 0, err
	case !bytes.HasPrefix(header, []byte(snapshotMagic)):
		return nil, 0, errors.New("this is not a snapshot of the metadata")
	case header[len(snapshotMagic)] != snapshotVersion:
		return nil, 0, fmt.Errorf("a snapshot of version %d is not known to this program", header[len(snapshotMagic)])
	}
	return r, binary.BigEndian.Uint64(header[len(snapshotMagic)+1:]), nil
}

// take reads bytes, reserving no more than the source really has.
func (r *snapshotReader) take(count uint64) ([]byte, error) {
	var taken bytes.Buffer
	if _, err := io.CopyN(io.MultiWriter(&taken, r.checksum), r.source, int64(count)); err != nil {
		return nil, cutShort(err)
	}
	return taken.Bytes(), nil
}

func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read a snapshot of the metadata: %w", err)
}

func (r *snapshotReader) length(limit uint64) (uint64, error) {
	length, err := binary.ReadUvarint(byteReader{r})
	if err != nil {
		return 0, cutShort(err)
	}
	if length > limit {
		return 0, fmt.Errorf("a snapshot of the metadata has a length of %d, the limit is %d", length, limit)
	}
	return length, nil
}

// byteReader reads single bytes and includes them in the checksum.
type byteReader struct{ r *snapshotReader }

func (b byteReader) ReadByte() (byte, error) {
	c, err := b.r.source.ReadByte()
	if err == nil {
		_, _ = b.r.checksum.Write([]byte{c})
	}
	return c, err
}

// next reads one key with its value; io.EOF after the last one, once the trailer has been found right.
func (r *snapshotReader) next() (key, value []byte, err error) {
	length, err := r.length(maxSnapshotKey)
	if err != nil {
		return nil, nil, err
	}
	if length == 0 {
		return nil, nil, r.finish()
	}
	if key, err = r.take(length); err != nil {
		return nil, nil, err
	}
	if length, err = r.length(maxSnapshotValue); err != nil {
		return nil, nil, err
	}
	if value, err = r.take(length); err != nil {
		return nil, nil, err
	}
	r.keys++
	return key, value, nil
}

func (r *snapshotReader) finish() error {
	count, err := r.take(8)
	if err != nil {
		return err
	}
	want := r.checksum.Sum32()
	sum := make([]byte, 4)
	if _, err := io.ReadFull(r.source, sum); err != nil {
		return cutShort(err)
	}
	if binary.BigEndian.Uint32(sum) != want || binary.BigEndian.Uint64(count) != r.keys {
		return errors.New("a snapshot of the metadata is damaged: its checksum or its number of keys is wrong")
	}
	return io.EOF
}

// readSnapshot replaces the replicated spaces by what source holds. The applied index goes first and comes last: a
// database without one has been left in the middle, and must be restored again.
func readSnapshot(source io.Reader, db *state.DB) error {
	r, index, err := openSnapshot(source)
	if err != nil {
		return err
	}
	batch := db.NewBatch()
	for _, space := range state.ReplicatedSpaces() {
		batch.DeleteRange(space, state.Range{})
	}
	for {
		key, value, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && !isReplicated(state.Space(key[0])) {
			err = fmt.Errorf("a snapshot of the metadata has a key of space %q", key[0])
		}
		if err != nil {
			batch.Close()
			return err
		}
		if state.Space(key[0]) != state.SpaceApplied {
			batch.Set(state.Space(key[0]), key[1:], value)
		}
		if batch.Bytes() > restoreBatchBytes {
			err := batch.Commit(state.Unsynced)
			batch.Close()
			if err != nil {
				return err
			}
			batch = db.NewBatch()
		}
	}
	defer batch.Close()
	batch.Set(state.SpaceApplied, nil, encodeNumber(int64(index)))
	return batch.Commit(state.Synced)
}

func isReplicated(space state.Space) bool { return slices.Contains(state.ReplicatedSpaces(), space) }
