package main

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/firnlog/firn/broker/admin/view"
)

func tierCommand() *cobra.Command {
	return group(&cobra.Command{Use: "tier", Short: "Look at what lies in the bucket"},
		tierStatusCommand(),
		tierListCommand(),
		tierVerifyCommand(),
		tierGarbageCommand(),
		tierPinsCommand(),
	)
}

// tierStatus is what `tier status` found.
type tierStatus view.TierStatus

func tierStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [TOPIC…]",
		Short: "Show how far each tiered partition has sunk into the bucket",
	}
	server := addHTTPFlag(cmd)
	return printing(cmd, func(cmd *cobra.Command, topics []string) (*tierStatus, error) {
		var status tierStatus
		if err := server.get(cmd.Context(), view.PathTier, &status); err != nil {
			return nil, err
		}
		for _, topic := range topics {
			if !slices.ContainsFunc(status.Partitions, func(p view.TierPartition) bool { return p.Topic == topic }) {
				return nil, fmt.Errorf("topic %s is not tiered here: see `firn tier status`, "+
					"or set remote.storage.enable=true with `firn topic alter`", topic)
			}
		}
		status.Partitions = slices.DeleteFunc(status.Partitions, func(p view.TierPartition) bool {
			return len(topics) > 0 && !slices.Contains(topics, p.Topic)
		})
		if status.Partitions == nil {
			status.Partitions = []view.TierPartition{}
		}
		return &status, nil
	})
}

func (s *tierStatus) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(s.Partitions))
	for _, p := range s.Partitions {
		rows = append(rows, []string{p.Topic, strconv.Itoa(int(p.Partition)), knownOffset(p.LogStart),
			fmt.Sprintf("%d–%d", p.Start, p.End), decimal(p.Segments), byteSize(p.Bytes),
			localRange(p), localSize(p.LocalBytes), localSize(p.UploadLagBytes)})
	}
	return table(w, []string{"TOPIC", "PARTITION", "LOG START",
		"REMOTE", "OBJECTS", "BYTES", "LOCAL", "BYTES", "TO UPLOAD"}, rows)
}

// localRange and localSize print what lies on disk, which is unknown (−1) while the log is offline.
func localRange(p view.TierPartition) string {
	if p.LocalStart < 0 {
		return "offline"
	}
	return fmt.Sprintf("%d–%d", p.LocalStart, p.LogEnd)
}

func localSize(size int64) string {
	if size < 0 {
		return "-"
	}
	return byteSize(size)
}

// tierObjects is what `tier ls` found.
type tierObjects view.TierObjects

func tierListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls TOPIC",
		Short: "List the objects in the bucket that hold a topic",
		Args:  takes(cobra.ExactArgs(1)),
	}
	server := addHTTPFlag(cmd)
	partitions := cmd.Flags().Int32SliceP("partitions", "p", nil, "list these partitions only")
	return printing(cmd, func(cmd *cobra.Command, args []string) (*tierObjects, error) {
		var objects tierObjects
		if err := server.get(cmd.Context(), view.PathTier+"/"+url.PathEscape(args[0]), &objects); err != nil {
			return nil, err
		}
		objects.Entries = slices.DeleteFunc(objects.Entries, func(entry view.TierEntry) bool {
			return len(*partitions) > 0 && !slices.Contains(*partitions, entry.Partition)
		})
		if objects.Entries == nil {
			objects.Entries = []view.TierEntry{}
		}
		return &objects, nil
	})
}

func (o *tierObjects) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(o.Entries))
	for _, entry := range o.Entries {
		newest := "-"
		if entry.MaxTimestamp >= 0 {
			newest = time.UnixMilli(entry.MaxTimestamp).UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{strconv.Itoa(int(entry.Partition)), decimal(entry.BaseOffset), decimal(entry.EndOffset),
			strconv.Itoa(int(entry.LeaderEpoch)), byteSize(entry.Bytes), newest, entry.Key})
	}
	return table(w, []string{"PARTITION", "START", "END", "EPOCH", "BYTES", "NEWEST", "KEY"}, rows)
}

func knownOffset(offset int64) string {
	if offset < 0 {
		return "-"
	}
	return decimal(offset)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
