package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/manifest"
)

// dumpedObject is what the tail of a segment object says.
type dumpedObject struct {
	File           string `json:"file"`
	ClusterID      string `json:"clusterId"`
	Topic          string `json:"topic"`
	TopicID        string `json:"topicId"`
	Partition      int32  `json:"partition"`
	BaseOffset     int64  `json:"baseOffset"`
	EndOffset      int64  `json:"endOffset"` // exclusive
	LeaderEpoch    int32  `json:"leaderEpoch"`
	UploadID       string `json:"uploadId"`
	LogStartOffset int64  `json:"logStartOffset"`
	Batches        int64  `json:"batches"`
	Records        int64  `json:"records"`
	DataBytes      int64  `json:"dataBytes"`
	ObjectBytes    int64  `json:"objectBytes"`
	MinTimestamp   int64  `json:"minTimestamp"`
	MaxTimestamp   int64  `json:"maxTimestamp"`
}

// String prints the object in one line.
func (o dumpedObject) String() string { return "Object: " + o.File + fieldsOf(o) }

// fieldsOf prints the fields of a dumped item by the names of its JSON, except the file that its heading names.
func fieldsOf(item any) string {
	var line strings.Builder
	value := reflect.ValueOf(item)
	for i := range value.NumField() {
		name := value.Type().Field(i).Tag.Get("json")
		if name == "file" {
			continue
		}
		var text string
		switch field := value.Field(i).Interface().(type) {
		case map[string]string:
			for _, key := range sortedKeys(field) {
				text += "," + key + "=" + field[key]
			}
			text = strings.TrimPrefix(text, ",")
		case []string:
			text = strings.Join(field, ",")
		default:
			text = fmt.Sprint(field)
		}
		fmt.Fprintf(&line, " %s: %s", name, text)
	}
	return line.String()
}

// dumpObject prints what is in an object of a bucket: the batches of a segment as those of a log file, the items of
// what tells where segments are.
func dumpObject(object bucketObject, options storage.DumpOptions, visit func(fmt.Stringer) error) error {
	if object.isSegment() {
		return dumpSegment(object, options, visit)
	}
	parsed, err := object.parse()
	if err != nil {
		return err
	}
	var items []fmt.Stringer
	switch parsed := parsed.(type) {
	case *manifest.Sealed:
		items = dumpedManifest(object.name, parsed)
	case *checkpoint.Object:
		items = dumpedCheckpointObject(object.name, parsed)
	}
	for _, item := range items {
		if err := visit(item); err != nil {
			return err
		}
	}
	return nil
}

// dumpSegment prints the tail, then the batches.
func dumpSegment(object bucketObject, options storage.DumpOptions, visit func(fmt.Stringer) error) error {
	tail, err := object.tail()
	if err != nil {
		return err
	}
	err = visit(dumpedObject{File: object.name, ClusterID: tail.ClusterID.String(), Topic: tail.Topic,
		TopicID: tail.Partition.ID.String(), Partition: tail.Partition.Partition, BaseOffset: tail.BaseOffset,
		EndOffset: tail.EndOffset, LeaderEpoch: int32(tail.LeaderEpoch), UploadID: tail.UploadID.Hex(),
		LogStartOffset: tail.LogStartOffset, Batches: tail.BatchCount, Records: tail.RecordCount, DataBytes: tail.DataBytes,
		ObjectBytes: object.size, MinTimestamp: tail.MinTimestamp, MaxTimestamp: tail.MaxTimestamp})
	if err != nil {
		return err
	}
	data := objectData{FS: vfs.OS(), object: object, dataBytes: tail.DataBytes}
	return storage.Dump(data, object.name+logSuffix, options, func(item fmt.Stringer) error {
		if _, heading := item.(storage.DumpedFile); heading {
			return nil // the object is its own heading
		}
		return visit(item)
	})
}

// logSuffix is Kafka's for a segment's batches.
const logSuffix = ".log"

// objectData shows the data of a segment object as the log file that it once was: under the object's name with
// logSuffix, and without the tail.
type objectData struct {
	vfs.FS
	object    bucketObject
	dataBytes int64
}

// Stat implements vfs.FS.
func (o objectData) Stat(string) (os.FileInfo, error) { return dataInfo{}, nil }

// Open implements vfs.FS.
func (o objectData) Open(name string) (vfs.File, error) { return dataFile{data: o, name: name}, nil }

// dataInfo says that there is a file; a dump asks for no more.
type dataInfo struct{ os.FileInfo }

// IsDir implements os.FileInfo.
func (dataInfo) IsDir() bool { return false }

// dataFile is the file; it can only be read.
type dataFile struct {
	vfs.File
	data objectData
	name string
}

// Name implements vfs.File.
func (f dataFile) Name() string { return f.name }

// Size implements vfs.File.
func (f dataFile) Size() (int64, error) { return f.data.dataBytes, nil }

// ReadAt implements vfs.File.
func (f dataFile) ReadAt(p []byte, position int64) (int, error) {
	return f.data.object.ReadAt(p, position)
}

// Close implements vfs.File. The object is closed by whoever opened it.
func (f dataFile) Close() error { return nil }
