package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// bucketFolder is where a node's bucket lies in its directory, unless it is somewhere else altogether.
const bucketFolder = "bucket"

// clusterOf asks a broker for its cluster's id.
func clusterOf(ctx context.Context, node Node) (string, error) {
	client, err := connect(node)
	if err != nil {
		return "", err
	}
	defer client.Close()
	metadata, err := kadm.NewClient(client).BrokerMetadata(ctx)
	if err != nil {
		return "", fmt.Errorf("ask for the cluster's id: %w", err)
	}
	return metadata.Cluster, nil
}

// loseAndRestore removes everything that the broker had, except its bucket, and makes it anew from that.
func (s *show) loseAndRestore(ctx context.Context) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("look into the broker's directory: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == bucketFolder && s.options.Store == "" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.dir, entry.Name())); err != nil {
			return fmt.Errorf("remove the broker's data: %w", err)
		}
	}
	s.display.say("Stopped the broker and removed all it had: logs, metadata, everything but the bucket. " +
		"Restoring from that.")
	began := time.Now()
	if err := s.options.Restore(ctx, s.dir, s.cluster); err != nil {
		return fmt.Errorf("restore cluster %s: %w", s.cluster, err)
	}
	s.summary.RestoreSeconds = time.Since(began).Seconds()
	return nil
}

// thirdLife reads what has come back: all that was in the bucket.
func (s *show) thirdLife(ctx context.Context, node Node) error {
	client, err := connect(node)
	if err != nil {
		return err
	}
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	client.Close()
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return fmt.Errorf("list the end offset: %w", err)
	}
	s.summary.RestoredEnd = listed[topic][0].Offset
	if s.summary.RestoredEnd != s.summary.RemoteEnd {
		return fmt.Errorf("the restored topic ends at offset %d, the bucket had everything below %d", s.summary.RestoredEnd,
			s.summary.RemoteEnd)
	}
	s.display.say("Restored in %.2f s: a new cluster has all that was in the bucket, without a download. The last %d "+
		"events\nwere in the segment that was still being written, and are gone with the disk.", s.summary.RestoreSeconds,
		int64(len(s.events))-s.summary.RestoredEnd)
	return s.replay(ctx, node, s.summary.RestoredEnd)
}
