package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/segment"
)

func logDumpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dump PATH",
		Short: "Print what is in a file of a log, in the folder of a partition or in a segment object",
		Long: "Print each batch, index entry and producer in a line, in the words of Kafka's dump tool. PATH is a file\n" +
			"(.log, .index, .timeindex, .txnindex, .snapshot, leader-epoch-checkpoint, partition.metadata, .seg) or the\n" +
			"folder of a partition.",
		Example: "  firn log dump firn-data/log/flights-0\n  firn log dump --records 00000000000000000000.log -f json",
		Args:    takes(cobra.ExactArgs(1)),
	}
	records := cmd.Flags().Bool("records", false, "print each record of a batch, too")
	format := cmd.Flags().StringP("format", "f", formatText,
		"output format: text, json (an object a line), or help for the fields of the JSON")
	completeFormat(cmd, formatText, formatJSON, formatHelp)
	checkArgs := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *format == formatHelp {
			return nil
		}
		return checkArgs(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkFormat(cmd, *format, formatText, formatJSON, formatHelp); err != nil {
			return err
		}
		if *format == formatHelp {
			return writeDumpSchema(cmd.OutOrStdout())
		}
		out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
		visit := func(item fmt.Stringer) error {
			_, err := fmt.Fprintln(out, item)
			return err
		}
		if *format == formatJSON {
			encoder := json.NewEncoder(out)
			encoder.SetEscapeHTML(false)
			visit = func(item fmt.Stringer) error { return encoder.Encode(dumpedLine(item)) }
		}
		return errors.Join(dump(args[0], storage.DumpOptions{Records: *records}, visit), out.Flush())
	}
	return cmd
}

func dump(path string, options storage.DumpOptions, visit func(fmt.Stringer) error) error {
	if filepath.Ext(path) == objectSuffix {
		return dumpObject(path, options, visit)
	}
	if err := storage.Dump(vfs.OS(), filepath.ToSlash(path), options, visit); err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	return nil
}

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
func (o dumpedObject) String() string {
	return fmt.Sprintf("Object: %s clusterId: %s topic: %s topicId: %s partition: %d baseOffset: %d endOffset: %d "+
		"leaderEpoch: %d uploadId: %s logStartOffset: %d batches: %d records: %d dataBytes: %d objectBytes: %d "+
		"minTimestamp: %d maxTimestamp: %d", o.File, o.ClusterID, o.Topic, o.TopicID, o.Partition, o.BaseOffset, o.EndOffset,
		o.LeaderEpoch, o.UploadID, o.LogStartOffset, o.Batches, o.Records, o.DataBytes, o.ObjectBytes, o.MinTimestamp,
		o.MaxTimestamp)
}

// dumpObject prints the tail of an object, then the batches of its data as those of a log file.
func dumpObject(path string, options storage.DumpOptions, visit func(fmt.Stringer) error) error {
	tail, size, err := readTail(path)
	if err != nil {
		return fmt.Errorf("dump %s: %w", path, err)
	}
	err = visit(dumpedObject{File: path, ClusterID: tail.ClusterID.String(), Topic: tail.Topic,
		TopicID: tail.Partition.ID.String(), Partition: tail.Partition.Partition, BaseOffset: tail.BaseOffset,
		EndOffset: tail.EndOffset, LeaderEpoch: int32(tail.LeaderEpoch), UploadID: tail.UploadID.Hex(),
		LogStartOffset: tail.LogStartOffset, Batches: tail.BatchCount, Records: tail.RecordCount, DataBytes: tail.DataBytes,
		ObjectBytes: size, MinTimestamp: tail.MinTimestamp, MaxTimestamp: tail.MaxTimestamp})
	if err != nil {
		return err
	}
	data := objectData{FS: vfs.OS(), dataBytes: tail.DataBytes}
	err = storage.Dump(data, filepath.ToSlash(path)+logSuffix, options, func(item fmt.Stringer) error {
		if _, heading := item.(storage.DumpedFile); heading {
			return nil // the object is its own heading
		}
		return visit(item)
	})
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	return nil
}

func readTail(path string) (tail *segment.Tail, size int64, err error) {
	object, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer object.Close()
	info, err := object.Stat()
	if err != nil {
		return nil, 0, err
	}
	end := make([]byte, min(info.Size(), segment.TrailerSize))
	if _, err := object.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return nil, 0, err
	}
	trailer, err := segment.ParseTrailer(end)
	if err != nil {
		return nil, 0, err
	}
	if trailer.ObjectBytes() != info.Size() {
		return nil, 0, fmt.Errorf("the trailer describes an object of %d bytes, not of %d",
			trailer.ObjectBytes(), info.Size())
	}
	encoded := make([]byte, info.Size()-trailer.DataBytes)
	if _, err := object.ReadAt(encoded, trailer.DataBytes); err != nil {
		return nil, 0, err
	}
	tail, err = segment.ParseTail(encoded)
	return tail, info.Size(), err
}

// logSuffix is Kafka's for a segment's batches.
const logSuffix = ".log"

// objectData shows the data of a segment object as the log file that it once was: under the object's name with
// logSuffix, and without the tail.
type objectData struct {
	vfs.FS
	dataBytes int64
}

// Stat implements vfs.FS.
func (o objectData) Stat(name string) (os.FileInfo, error) {
	return o.FS.Stat(strings.TrimSuffix(name, logSuffix))
}

// Open implements vfs.FS.
func (o objectData) Open(name string) (vfs.File, error) {
	file, err := o.FS.Open(strings.TrimSuffix(name, logSuffix))
	if err != nil {
		return nil, err
	}
	return dataFile{File: file, size: o.dataBytes}, nil
}

type dataFile struct {
	vfs.File
	size int64
}

// Size implements vfs.File.
func (f dataFile) Size() (int64, error) { return f.size, nil }
