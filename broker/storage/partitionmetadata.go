package storage

import (
	"errors"
	"fmt"
	"strings"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// partition.metadata is Kafka's: which incarnation of the topic the folder belongs to.
const partitionMetadataFormat = "version: 0\ntopic_id: %s"

func parsePartitionMetadata(data []byte) (kafka.TopicID, error) {
	lines := strings.Split(strings.TrimRight(string(data), "\r\n"), "\n")
	if len(lines) != 2 || strings.TrimRight(lines[0], "\r") != "version: 0" {
		return kafka.TopicID{}, fmt.Errorf("%s has no version 0 and topic id", metadataFileName)
	}
	text, found := strings.CutPrefix(lines[1], "topic_id: ")
	if !found {
		return kafka.TopicID{}, fmt.Errorf("%s has no topic_id", metadataFileName)
	}
	return kafka.ParseUUID(strings.TrimSpace(text))
}

func readPartitionMetadata(fsys vfs.FS, folder string) (kafka.TopicID, error) {
	data, err := vfs.ReadFile(fsys, folder+"/"+metadataFileName)
	if err != nil {
		return kafka.TopicID{}, err
	}
	return parsePartitionMetadata(data)
}

// writePartitionMetadata makes the content durable before any segment is made, so that records without an owner cannot
// be what a crash leaves. The entry of the folder itself is left to the log's first flush.
func writePartitionMetadata(fsys vfs.FS, folder string, id kafka.TopicID) error {
	file, err := fsys.Create(folder + "/" + metadataFileName)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(fmt.Appendf(nil, partitionMetadataFormat, id), 0); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
