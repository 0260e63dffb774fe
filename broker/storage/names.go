package storage

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/firnlog/firn/internal/kafka"
)

// The names in a log directory and in a log's folder, all Kafka's.
const (
	logSuffix           = ".log"
	offsetIndexSuffix   = ".index"
	timeIndexSuffix     = ".timeindex"
	txnIndexSuffix      = ".txnindex"
	snapshotSuffix      = ".snapshot"
	deletedFileSuffix   = ".deleted"
	cleanedSuffix       = ".cleaned" // behind the suffix of a file that a cleaning has not put in place yet
	deletedFolderSuffix = "-delete"
	strayFolderSuffix   = "-stray"

	epochFileName      = "leader-epoch-checkpoint"
	metadataFileName   = "partition.metadata"
	metaPropertiesName = "meta.properties"
	cleanMarkerName    = ".kafka_cleanshutdown"
	lockFileName       = ".lock"

	offsetDigits      = 20
	maxFolderNameSize = 255 // of most file systems
)

// rewrittenSuffixes are those of the files that a rewrite writes, the batches first; segmentSuffixes are all of a
// segment.
var (
	rewrittenSuffixes = []string{logSuffix, offsetIndexSuffix, timeIndexSuffix, txnIndexSuffix}
	segmentSuffixes   = append(rewrittenSuffixes[:len(rewrittenSuffixes):len(rewrittenSuffixes)], snapshotSuffix)
)

// segmentPath is the name of one of a segment's files.
func segmentPath(folder string, baseOffset int64, suffix string) string {
	return path.Join(folder, fmt.Sprintf("%0*d%s", offsetDigits, baseOffset, suffix))
}

// parseSegmentName takes the base offset off a file name with one of the segment suffixes.
func parseSegmentName(name, suffix string) (baseOffset int64, ok bool) {
	digits, found := strings.CutSuffix(name, suffix)
	if !found || len(digits) != offsetDigits {
		return 0, false
	}
	baseOffset, err := strconv.ParseInt(digits, 10, 64)
	return baseOffset, err == nil && baseOffset >= 0
}

// parseFolderName reads topic-partition.
func parseFolderName(name string) (kafka.TopicPartition, bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 {
		return kafka.TopicPartition{}, false
	}
	partition, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil || partition < 0 || name[dash+1:] != strconv.FormatInt(partition, 10) {
		return kafka.TopicPartition{}, false
	}
	return kafka.TopicPartition{Topic: name[:dash], Partition: int32(partition)}, true
}

// asideName is the name of a folder that is deleted or stray: topic-partition.uuid-suffix, where the topic is
// shortened, as Kafka does, when the file system would not take the whole.
func asideName(tp kafka.TopicPartition, unique kafka.UUID, suffix string) string {
	rest := fmt.Sprintf("-%d.%s%s", tp.Partition, unique.Hex(), suffix)
	return tp.Topic[:min(len(tp.Topic), maxFolderNameSize-len(rest))] + rest
}
