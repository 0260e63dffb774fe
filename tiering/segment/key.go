package segment

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

const (
	offsetDigits   = 20 // as in the names of Kafka's segment files
	epochDigits    = 10 // all of an int32
	uuidDigits     = 32
	nameLength     = 2*offsetDigits + epochDigits + uuidDigits + len("---") // without what tells the kind
	endPosition    = offsetDigits + 1
	epochPosition  = endPosition + offsetDigits + 1
	uploadPosition = epochPosition + epochDigits + 1
)

// folder is where a partition's objects of a kind are, and what their names end with.
func (k Kind) folder() string {
	switch k {
	case KindLeaf:
		return "leaf"
	case KindNode:
		return "node"
	}
	return "seg"
}

// Key names one object of a partition, a segment or a sealed part of its manifest: whose it is, the range it answers
// for, and which upload made it.
type Key struct {
	Kind        Kind
	ClusterID   kafka.UUID
	Partition   kafka.TopicIDPartition
	BaseOffset  int64 // the range is [BaseOffset, EndOffset)
	EndOffset   int64
	LeaderEpoch kafka.LeaderEpoch
	UploadID    kafka.UUID
}

// KeyOf is the key of the object that a manifest entry stands for.
func KeyOf(clusterID kafka.UUID, tp kafka.TopicIDPartition, entry command.SegmentEntry) Key {
	return KeyOfItem(clusterID, tp, entry)
}

// KeyOfItem is the key of the object that an item of a manifest stands for. clusterID is that of the item's origin.
func KeyOfItem(clusterID kafka.UUID, tp kafka.TopicIDPartition, item command.Item) Key {
	s := item.Summary()
	return Key{Kind: KindSegment + Kind(s.Level), ClusterID: clusterID, Partition: tp, BaseOffset: s.BaseOffset,
		EndOffset: s.EndOffset, LeaderEpoch: s.LeaderEpoch, UploadID: s.UploadID}
}

// String is the key as the bucket knows it, without the store's own prefix.
func (k Key) String() string {
	return fmt.Sprintf("%s%020d-%020d-%010d-%s.%s", Folder(k.ClusterID, k.Partition, k.Kind), k.BaseOffset, k.EndOffset,
		k.LeaderEpoch, k.UploadID.Hex(), k.Kind.folder())
}

// TopicPrefix begins the keys of everything a topic has in the bucket.
func TopicPrefix(clusterID kafka.UUID, topic kafka.TopicID) string {
	return clusterID.Hex() + "/" + topic.Hex() + "/"
}

// Prefix begins the keys of all segment objects of a partition.
func Prefix(clusterID kafka.UUID, tp kafka.TopicIDPartition) string {
	return Folder(clusterID, tp, KindSegment)
}

// Folder begins the keys of all objects of a partition that are of one kind.
func Folder(clusterID kafka.UUID, tp kafka.TopicIDPartition, kind Kind) string {
	return TopicPrefix(clusterID, tp.ID) + strconv.Itoa(int(tp.Partition)) + "/" + kind.folder() + "/"
}

// StartAfter is the key to start a listing of Prefix after, to see the segments whose base is offset or more.
func StartAfter(clusterID kafka.UUID, tp kafka.TopicIDPartition, offset int64) string {
	return StartAfterIn(Prefix(clusterID, tp), offset)
}

// StartAfterIn is StartAfter for a Folder.
func StartAfterIn(folder string, offset int64) string { return fmt.Sprintf("%s%020d", folder, offset) }

// ParseKey reads a key back. Only what String prints is accepted, so that no two keys mean the same object.
func ParseKey(text string) (Key, error) {
	key, ok := parseKey(text)
	if !ok || key.String() != text {
		return Key{}, fmt.Errorf("%q is not the key of an object of a partition", text)
	}
	return key, nil
}

// parseKey may accept a little more than String prints, but drops nothing silently.
func parseKey(text string) (key Key, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 5 || len(parts[4]) < nameLength {
		return Key{}, false
	}
	name := parts[4]
	for kind := KindSegment; kind <= KindNode; kind++ {
		if parts[3] == kind.folder() {
			key.Kind = kind
		}
	}
	ok = parseUUID(&key.ClusterID, parts[0]) && parseUUID(&key.Partition.ID, parts[1])
	partition, err := strconv.ParseInt(parts[2], 10, 32)
	base, baseErr := strconv.ParseInt(name[:offsetDigits], 10, 64)
	end, endErr := strconv.ParseInt(name[endPosition:][:offsetDigits], 10, 64)
	epoch, epochErr := strconv.ParseInt(name[epochPosition:][:epochDigits], 10, 32)
	ok = ok && parseUUID(&key.UploadID, name[uploadPosition:][:uuidDigits])
	for _, err := range []error{err, baseErr, endErr, epochErr} {
		ok = ok && err == nil
	}
	key.Partition.Partition, key.BaseOffset, key.EndOffset = int32(partition), base, end
	key.LeaderEpoch = kafka.LeaderEpoch(epoch)
	return key, ok && key.Kind != 0 && partition >= 0 && base >= 0 && end > base && epoch >= 0
}

func parseUUID(id *kafka.UUID, digits string) bool {
	if len(digits) != uuidDigits {
		return false
	}
	_, err := hex.Decode(id[:], []byte(digits))
	return err == nil
}
