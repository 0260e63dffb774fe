package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/firnlog/firn/broker/admin/view"
)

// topicCompaction is what `topic compact` has seen last.
type topicCompaction view.TopicCompaction

func topicCompactCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compact TOPIC",
		Short: "Compact a topic now, and wait until that is done",
		Long: "Seals what was written last and has the log cleaner keep the last record of each key only, whatever " +
			"min.cleanable.dirty.ratio says. min.compaction.lag.ms and delete.retention.ms hold. A partition that was set " +
			"aside because it could not be compacted is tried again.",
		Args: takes(cobra.ExactArgs(1)),
	}
	server := addHTTPFlag(cmd)
	partitions := cmd.Flags().Int32SliceP("partitions", "p", nil, "compact these partitions only")
	return printing(cmd, func(cmd *cobra.Command, args []string) (*topicCompaction, error) {
		query := url.Values{}
		for _, partition := range *partitions {
			query.Add("partition", strconv.Itoa(int(partition)))
		}
		path := view.PathCompaction + "/" + url.PathEscape(args[0]) + "?" + query.Encode()
		return compactTopic(cmd.Context(), server, path, cmd.ErrOrStderr())
	})
}

// compactTopic asks for passes and follows them to their end.
func compactTopic(ctx context.Context, server *httpFlag, path string, progress io.Writer) (*topicCompaction, error) {
	var begun topicCompaction
	if err := server.post(ctx, path, &begun); err != nil {
		return nil, err
	}
	seen, err := follow(ctx, &begun, func() (*topicCompaction, error) {
		var seen topicCompaction
		return &seen, server.get(ctx, path, &seen)
	}, progress)
	if err != nil {
		return nil, err
	}
	return seen, seen.failures()
}

func (t *topicCompaction) busy() bool {
	return slices.ContainsFunc(t.Partitions, func(p view.PartitionCompaction) bool { return p.Waiting })
}

// progress is one line about all partitions.
func (t *topicCompaction) progress() string {
	var read, toRead int64
	waiting := 0
	for _, p := range t.Partitions {
		if p.Waiting {
			waiting++
		}
		if p.Running {
			read, toRead = read+p.BytesRead, toRead+p.BytesToRead
		}
	}
	return fmt.Sprintf("%d of %d partitions to go, %s of %s read in those under way", waiting, len(t.Partitions),
		byteSize(read), byteSize(toRead))
}

// failures are the partitions that could not be compacted.
func (t *topicCompaction) failures() error {
	var failed []error
	for _, p := range t.Partitions {
		if p.SetAside != "" {
			failed = append(failed, fmt.Errorf("partition %d is set aside: %s", p.Partition, p.SetAside))
		}
		if p.BrokenOff != "" {
			failed = append(failed, fmt.Errorf("the pass over partition %d was broken off; ask again once this is mended: %s",
				p.Partition, p.BrokenOff))
		}
	}
	return errors.Join(failed...)
}

func (t *topicCompaction) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(t.Partitions))
	for _, p := range t.Partitions {
		rows = append(rows, []string{strconv.Itoa(int(p.Partition)), decimal(p.Passes), decimal(p.EndOffset),
			byteSize(p.BytesRead), byteSize(p.BytesWritten), decimal(p.RecordsRead), decimal(p.RecordsKept),
			byteSize(p.DirtyBytes)})
	}
	return table(w, []string{"PARTITION", "PASSES", "CLEANED TO", "READ", "WRITTEN", "RECORDS", "KEPT", "DIRTY"}, rows)
}

// compactionNotes are the partitions of a topic that cannot be compacted. Only the HTTP listener knows: where there is
// none, or it is another cluster's, there are no notes.
func compactionNotes(ctx context.Context, server *httpFlag, topic *topicDescription) (notes []string) {
	var seen topicCompaction
	err := server.get(ctx, view.PathCompaction+"/"+url.PathEscape(topic.Topic), &seen)
	if err != nil || seen.TopicID != topic.ID {
		return nil
	}
	for _, p := range seen.Partitions {
		if p.SetAside != "" {
			notes = append(notes, fmt.Sprintf("partition %d is not compacted any more: %s; `firn topic compact` tries again",
				p.Partition, p.SetAside))
		}
	}
	return notes
}
