package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// longestMovedName is the longest name of a partition that Kafka moves: behind it come an id and a suffix, all
// of which must fit into the 255 bytes of a file's name (KAFKA-4893).
const longestMovedName = 255 - len(".0123456789abcdef0123456789abcdef-future")

// alterReplicaLogDirs serves AlterReplicaLogDirs v1–v2 (KIP-113). A log stays in the directory in which it was made: to
// be there already is all that can be asked of it. A partition that is named twice is to go where it is named last.
func (h *Handlers) alterReplicaLogDirs(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrAlterReplicaLogDirsRequest())
	if err != nil {
		return malformed(err)
	}
	destinations := map[kafka.TopicPartition]string{}
	for _, dir := range request.Dirs {
		for _, topic := range dir.Topics {
			for _, partition := range topic.Partitions {
				destinations[kafka.TopicPartition{Topic: topic.Topic, Partition: partition}] = dir.Dir
			}
		}
	}
	directories := h.options.LogDirectories()
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	for _, tp := range slices.SortedFunc(maps.Keys(destinations), byName) {
		if len(resp.Topics) == 0 || resp.Topics[len(resp.Topics)-1].Topic != tp.Topic {
			topic := kmsg.NewAlterReplicaLogDirsResponseTopic()
			topic.Topic = tp.Topic
			resp.Topics = append(resp.Topics, topic)
		}
		answer := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
		answer.Partition = tp.Partition
		answer.ErrorCode = int16(kafka.CodeOf(h.move(tp, destinations[tp], directories)))
		last := &resp.Topics[len(resp.Topics)-1]
		last.Partitions = append(last.Partitions, answer)
	}
	return now(req, resp)
}

// move says what would come of moving a partition to a directory.
func (h *Handlers) move(tp kafka.TopicPartition, path string, directories []LogDirectory) error {
	if len(tp.String()) > longestMovedName {
		return fmt.Errorf("the name of %s is too long to be moved: %w", tp, kafka.InvalidTopic)
	}
	at := slices.IndexFunc(directories, func(dir LogDirectory) bool { return dir.Path == path })
	if at < 0 {
		return fmt.Errorf("%s is none of log.dirs: %w", path, kafka.LogDirNotFound)
	}
	if err := directories[at].Err; err != nil {
		return fmt.Errorf("%s is offline: %w: %w", path, kafka.KafkaStorageError, err)
	}
	partition, err := h.options.Replicas.Partition(tp)
	if err != nil {
		return err
	}
	log, err := partition.Log()
	if err != nil {
		return err
	}
	if log.DirectoryID() != directories[at].ID {
		return fmt.Errorf("%s lies in another directory, and logs are not moved: %w", tp, kafka.KafkaStorageError)
	}
	return nil
}

// byName orders partitions by topic and number.
func byName(a, b kafka.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
