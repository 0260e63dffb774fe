package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/cmd/firn/httpapi"
)

// watchInterval is how often the tier is looked at. A user's program would not look at all; this is for the bars.
const watchInterval = 100 * time.Millisecond

// sinking follows the topic on its way into the bucket.
type sinking struct {
	node            Node
	total           int64
	remote, dropped *bar
	last            view.TierPartition
}

// watch returns once everything has been produced, all sealed segments are in the bucket, and no local copies of them
// are left. What remains local is the segment that is still being written.
func (s *sinking) watch(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		if err := s.look(ctx); err != nil {
			return err
		}
		s.remote.set(s.last.End)
		s.dropped.set(s.last.LocalStart)
		if s.sunk() {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *sinking) sunk() bool {
	return s.last.HighWatermark == s.total && s.last.End > 0 && s.last.UploadLagBytes == 0 &&
		s.last.LocalStart == s.last.End
}

func (s *sinking) look(ctx context.Context) error {
	var status view.TierStatus
	if err := httpapi.Get(ctx, s.node.HTTPAddr(), view.PathTier, &status); err != nil {
		return err
	}
	for _, partition := range status.Partitions {
		if partition.Topic == topic { // missing at first: tiering begins a moment after the topic is there
			s.last = partition
		}
	}
	return nil
}

func (s *show) tellWhatSank(sink *sinking) {
	s.summary.RemoteBytes, s.summary.Objects = sink.last.Bytes, sink.last.Segments
	s.summary.LocalBytes = sink.last.LocalBytes
	s.summary.RemoteEnd, s.summary.LocalStart = sink.last.End, sink.last.LocalStart
	s.display.say("Produced %d events, keyed by %d aircraft, in %.1f s (%.0f events/s, acks=all).", s.summary.Events,
		s.summary.Keys, s.summary.ProduceSeconds, float64(s.summary.Events)/s.summary.ProduceSeconds)
	s.display.say("Offsets 0–%d sank into the bucket as %d objects, and their local copies are gone.",
		s.summary.RemoteEnd-1, s.summary.Objects)
}

// checkBorders asks the broker by the protocol where the log lies: readable from 0, local only from where remote ends.
func (s *show) checkBorders(ctx context.Context, node Node) error {
	client, err := connect(node)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for _, border := range []struct {
		name string
		list func(context.Context, ...string) (kadm.ListedOffsets, error)
		want int64
	}{
		{"log start offset", admin.ListStartOffsets, 0},
		{"local log start offset", admin.ListLocalLogStartOffsets, s.summary.RemoteEnd},
		{"last tiered offset", admin.ListLatestRemoteOffsets, s.summary.RemoteEnd - 1},
		{"end offset", admin.ListEndOffsets, int64(len(s.events))},
	} {
		listed, err := border.list(ctx, topic)
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return fmt.Errorf("list the %s: %w", border.name, err)
		}
		if got := listed[topic][0].Offset; got != border.want {
			return fmt.Errorf("the %s is %d instead of %d", border.name, got, border.want)
		}
	}
	return nil
}
