package state

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble ends its write-ahead log at the first record that does not fit its checksum: after a power cut that is the
// torn tail. Whether it is damage instead is told by what follows, for each later record says how far the log had been
// synced when it was written; but Pebble looks for it from the next block of 32 KiB on only, and our logs often have no
// next one. So the database is opened only after a look of our own at the rest: records that were acknowledged must
// not vanish without a word.
//
// The log is blocks of 32 KiB of chunks, little endian, which never cross a block's end:
//
//	position  size  field
//	       0     4  masked CRC32C of everything from the encoding on
//	       4     2  length of the payload
//	       6     1  encoding: 1–4 header ends here, 5–8 header has a log number, 9–12 also a synced offset
//	       7     4  low half of the log's number; one more in the trailer that ends the log
//	      11     8  synced offset: the file was durable up to here when the chunk was written
const (
	walBlockBytes  = 32 << 10
	walHeaderBytes = 7
	walNumberBytes = 11
	walSyncedBytes = 19
)

// checkLogs refuses a directory with a write-ahead log that is damaged below what had been synced.
func checkLogs(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, name := range names {
		number, isLog := logNumber(name)
		if !isLog {
			continue
		}
		path := fs.PathJoin(dir, name)
		data, err := readFile(fs, path)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if position, damaged := findDamage(data, number); damaged {
			return fmt.Errorf("%s is damaged at byte %d, below what had been made durable", path, position)
		}
	}
	return nil
}

// logNumber reads a name such as 000012.log.
func logNumber(name string) (uint32, bool) {
	digits, isLog := strings.CutSuffix(name, ".log")
	if !isLog {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return uint32(number), err == nil
}

func readFile(fs vfs.FS, path string) ([]byte, error) {
	file, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// findDamage gives the place where the log stops making sense, if a later chunk says that it was durable beyond.
func findDamage(data []byte, number uint32) (position int, damaged bool) {
	stop := endOfChunks(data, number)
	for at := stop + 1; at+walSyncedBytes <= len(data); at++ {
		chunk, ok := parseChunk(restOfBlock(data, at), number)
		if ok && chunk.synced > uint64(stop) {
			return stop, true
		}
	}
	return 0, false
}

// endOfChunks walks the chunks from the beginning to the first place where there is none.
func endOfChunks(data []byte, number uint32) int {
	at := 0
	for at < len(data) {
		rest := restOfBlock(data, at)
		if len(rest) < walSyncedBytes && allZero(rest) {
			at += len(rest) // too little room for a chunk: the writer went on in the next block
			continue
		}
		chunk, ok := parseChunk(rest, number)
		if !ok {
			if trailer, ok := parseChunk(rest, number+1); ok && trailer.size == walNumberBytes {
				return len(data) // the log was closed here; what follows is left of an older one
			}
			return at
		}
		at += chunk.size
	}
	return at
}

func restOfBlock(data []byte, at int) []byte {
	return data[at:min(len(data), (at/walBlockBytes+1)*walBlockBytes)]
}

func allZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// walChunk is what the check needs to know of a chunk.
type walChunk struct {
	size   int    // header and payload
	synced uint64 // 0 if the chunk does not say
}

// parseChunk reads the chunk at the beginning of data, which ends with the block.
func parseChunk(data []byte, number uint32) (walChunk, bool) {
	if len(data) < walHeaderBytes {
		return walChunk{}, false
	}
	header := walHeaderBytes
	switch encoding := data[6]; {
	case encoding >= 1 && encoding <= 4:
	case encoding <= 8 && encoding != 0:
		header = walNumberBytes
	case encoding <= 12 && encoding != 0:
		header = walSyncedBytes
	default:
		return walChunk{}, false
	}
	chunk := walChunk{size: header + int(binary.LittleEndian.Uint16(data[4:]))}
	if chunk.size > len(data) {
		return walChunk{}, false
	}
	if header >= walNumberBytes && binary.LittleEndian.Uint32(data[7:]) != number {
		return walChunk{}, false
	}
	if header == walSyncedBytes {
		chunk.synced = binary.LittleEndian.Uint64(data[11:])
	}
	return chunk, binary.LittleEndian.Uint32(data) == maskedChecksum(data[6:chunk.size])
}

// maskedChecksum is LevelDB's: a CRC32C that is stored next to what it covers is rotated and shifted, so that the CRC
// of data that contains CRCs stays useful.
func maskedChecksum(data []byte) uint32 {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (sum>>15 | sum<<17) + 0xa282ead8
}
