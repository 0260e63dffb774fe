package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/segment"
)

// A checkpoint is a root and shards. All are immutable, have keys that are never used twice, and end in the trailer of
// segment objects (of no data and a tail that is everything), with kind 4 (root) or 5 (shard) and version 2. Fields are
// those of package command: uvarints for counts, varints for numbers, 16 bytes for ids, a length before each string.
//
//	root:   cluster id, index (uvarint), id, written at, next producer id, settings of all brokers, list of (broker,
//	        its settings), list of shards:
//	        kind 1, number (uvarint), id, bytes of the object, checksum of the object 4, digest of the contents 16
//	shard:  kind 1, number (uvarint), cluster id, and then
//	  kind 1, topics: list of (id, name, settings, origins, number of partitions),
//	          list of (topic id, partition, leader epoch, tiered 1, and if it is: start, end, version, segments,
//	          bytes, list of items in the form of the manifest)
//	  kind 2, groups: list of (name, settings, list of (topic, topic id, partition, offset, leader epoch, metadata,
//	          time at which it expires, or 0))
//
// Version 1 is without the settings of single brokers and the times at which offsets expire. Of what has not changed
// since, a root of version 2 names shards of version 1.
//
// Topics and partitions are spread over the shards of topics by the hash of their ids, so that one large topic fills no
// shard of its own; groups are spread by the hash of their names. An empty shard is left out.
//
//	<cluster id>/meta/ckpt/<index, 20 digits>-<id>.ckpt
//	<cluster id>/meta/shard/<id>.shard

// Kind tells what a shard holds.
type shardKind uint8

const (
	shardOfTopics shardKind = 1
	shardOfGroups shardKind = 2
)

// How many shards there are of each kind. More shards make a checkpoint after a few changes smaller, and one after many
// changes more expensive. Readers go by what the root says.
const (
	topicShards = 64
	groupShards = 16
)

const (
	formatVersion = 2
	oldestVersion = 1 // that is still read
	digestSize    = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// shardID is a shard's place in a checkpoint.
type shardID struct {
	kind   shardKind
	number uint32
}

// shardRef is a shard's object.
type shardRef struct {
	shardID
	id       kafka.UUID
	bytes    int64
	checksum uint32 // of the object
	digest   [digestSize]byte
}

// digestOf tells contents apart without a doubt: a shard that has not changed is not written again.
func digestOf(contents []byte) (digest [digestSize]byte) {
	sum := sha256.Sum256(contents)
	copy(digest[:], sum[:])
	return digest
}

// hash spreads by FNV-1a, which is the same everywhere and for ever.
func hash(parts ...[]byte) uint32 {
	h := fnv.New32a()
	for _, part := range parts {
		_, _ = h.Write(part) // never fails
	}
	return h.Sum32()
}

func shardOfTopic(id kafka.TopicID) shardID {
	return shardID{shardOfTopics, hash(id[:]) % topicShards}
}

func shardOfPartition(tp kafka.TopicIDPartition) shardID {
	var partition [4]byte
	binary.BigEndian.PutUint32(partition[:], uint32(tp.Partition))
	return shardID{shardOfTopics, hash(tp.ID[:], partition[:]) % topicShards}
}

func shardOfGroup(name string) shardID {
	return shardID{shardOfGroups, hash([]byte(name)) % groupShards}
}

// seal makes an object of contents.
func seal(kind segment.Kind, contents []byte) []byte {
	trailer := segment.Trailer{
		TailBytes: int32(len(contents)), TailChecksum: crc32.Checksum(contents, castagnoli), Kind: kind,
		Version: formatVersion,
	}
	return trailer.AppendTo(contents)
}

// CorruptError says that an object of a checkpoint is damaged or not what its key says, and so will stay.
type CorruptError struct {
	Key string
	Err error
}

// Error prints place and reason.
func (e *CorruptError) Error() string { return fmt.Sprintf("%s is damaged: %s", e.Key, e.Err.Error()) }

// Unwrap gives the reason.
func (e *CorruptError) Unwrap() error { return e.Err }

// unseal checks an object and gives its contents, and the version of their format.
func unseal(kind segment.Kind, object []byte) (contents []byte, version int, err error) {
	trailer, err := segment.ParseTrailer(object)
	if err != nil {
		return nil, 0, err
	}
	if trailer.Kind != kind || trailer.ObjectBytes() != int64(len(object)) || trailer.DataBytes != 0 {
		return nil, 0, fmt.Errorf("an object of kind %d and %d bytes cannot be an object of kind %d and %d bytes",
			trailer.Kind, trailer.ObjectBytes(), kind, len(object))
	}
	version = int(trailer.Version)
	if version < oldestVersion || version > formatVersion {
		return nil, 0, fmt.Errorf("format version %d is not known to this program, which reads versions %d to %d",
			version, oldestVersion, formatVersion)
	}
	contents = object[:trailer.TailBytes]
	if got := crc32.Checksum(contents, castagnoli); got != trailer.TailChecksum {
		return nil, 0, fmt.Errorf("the checksum is %08x but the bytes have %08x", trailer.TailChecksum, got)
	}
	return contents, version, nil
}

func (r *Root) append(dst []byte) []byte {
	dst = append(dst, r.ClusterID[:]...)
	dst = binary.AppendUvarint(dst, r.Index)
	dst = append(dst, r.ID[:]...)
	dst = binary.AppendVarint(dst, r.WrittenAt)
	dst = binary.AppendVarint(dst, r.NextProducerID)
	dst = command.AppendConfigs(dst, r.BrokerConfigs)
	dst = binary.AppendUvarint(dst, uint64(len(r.SingleBrokerConfigs)))
	for _, broker := range slices.Sorted(maps.Keys(r.SingleBrokerConfigs)) {
		dst = command.AppendString(dst, broker)
		dst = command.AppendConfigs(dst, r.SingleBrokerConfigs[broker])
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.shards)))
	for _, shard := range r.shards {
		dst = append(dst, byte(shard.kind))
		dst = binary.AppendUvarint(dst, uint64(shard.number))
		dst = append(dst, shard.id[:]...)
		dst = binary.AppendVarint(dst, shard.bytes)
		dst = binary.BigEndian.AppendUint32(dst, shard.checksum)
		dst = append(dst, shard.digest[:]...)
	}
	return dst
}

func parseRoot(object []byte) (*Root, error) {
	contents, version, err := unseal(segment.KindCheckpoint, object)
	if err != nil {
		return nil, err
	}
	c := command.NewCursor(contents)
	root := &Root{
		ClusterID: c.UUID(), Index: c.Uvarint(), ID: c.UUID(), WrittenAt: c.Int64(), NextProducerID: c.Int64(),
		BrokerConfigs: c.Configs(),
	}
	if version > 1 {
		root.SingleBrokerConfigs = readSingleBrokers(&c)
	}
	const minShardBytes = 1 + 1 + 16 + 1 + 4 + digestSize
	root.shards = list(&c, minShardBytes, func(c *command.Cursor) shardRef {
		ref := shardRef{shardID: readShardID(c), id: c.UUID(), bytes: c.Int64()}
		for range 4 {
			ref.checksum = ref.checksum<<8 | uint32(c.Uint8())
		}
		ref.digest = c.UUID()
		if ref.bytes < segment.TrailerSize || ref.bytes > segment.MaxTailBytes+segment.TrailerSize {
			c.Fail(fmt.Sprintf("a shard of %d bytes", ref.bytes))
		}
		return ref
	})
	return root, c.Finish()
}

func readSingleBrokers(c *command.Cursor) map[string]map[string]string {
	const minBytes = 1 + 1
	var all map[string]map[string]string
	for range c.Count(minBytes) {
		if all == nil {
			all = map[string]map[string]string{}
		}
		broker := c.String()
		all[broker] = c.Configs()
	}
	return all
}

func readShardID(c *command.Cursor) shardID {
	return shardID{kind: shardKind(c.Uint8()), number: uint32(c.Uvarint())}
}

// list reads a count and that many elements of at least minBytes each.
func list[T any](c *command.Cursor, minBytes int, read func(*command.Cursor) T) []T {
	count := c.Count(minBytes)
	if count == 0 {
		return nil
	}
	elements := make([]T, 0, count)
	for range count {
		elements = append(elements, read(c))
	}
	return elements
}
