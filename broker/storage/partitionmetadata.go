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

// writePartitionMetadata does not sync: the log's first flush does, before anything is promised.
func writePartitionMetadata(fsys vfs.FS, folder string, id kafka.TopicID) error {
	file, err := fsys.Create(folder + "/" + metadataFileName)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(fmt.Appendf(nil, partitionMetadataFormat, id), 0)
	return errors.Join(err, file.Close())
}

// syncPartitionMetadata makes the file and the folder's own entry durable.
func syncPartitionMetadata(fsys vfs.FS, folder *folder) error {
	file, err := fsys.OpenReadWrite(folder.file(metadataFileName))
	if err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return fsys.SyncDir(folder.parent)
}
