package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/bulk"
	"github.com/firnlog/firn/tiering/checkpoint"
)

// bucketSource is a topic in the bucket: the objects as of one moment, which a pin keeps or only the grace time does.
type bucketSource struct {
	bucket   *bulk.Bucket
	snapshot *bulk.Snapshot
	// logEnds is where partitions came to an end for consumers when the pin was made, where a broker has told.
	logEnds map[int32]int64
	// renew makes a newer snapshot; nil if a pin keeps this one.
	renew func(ctx context.Context) (*bulk.Snapshot, error)
	// unpin ends the pin; nil if there is none.
	unpin func(ctx context.Context) error
}

// openBucketSource opens the store, and finds out what of the topic is in it.
func (c *consumeRequest) openBucketSource(ctx context.Context, notes io.Writer) (*bucketSource, error) {
	topic, source := c.choice.names[0], &bucketSource{logEnds: map[int32]int64{}}
	var err error
	if c.bucket.store != storeOfBroker {
		if source.bucket, err = openStore(ctx, c.bucket.store); err != nil {
			return nil, err
		}
	}
	if c.bucket.noBroker {
		err = source.readCheckpoint(ctx, c.bucket.cluster, topic, notes)
	} else {
		err = c.pin(ctx, source, topic)
	}
	if err != nil {
		source.close(ctx, notes)
		return nil, err
	}
	return source, nil
}

func openStore(ctx context.Context, location string) (*bulk.Bucket, error) {
	return bulk.Open(ctx, location, slog.New(slog.DiscardHandler))
}

// close ends the pin, also when the command is interrupted, and lets go of the store.
func (s *bucketSource) close(ctx context.Context, notes io.Writer) {
	if s.unpin != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptPatience)
		defer cancel()
		if err := s.unpin(ctx); err != nil {
			fmt.Fprintf(notes, "firn: the broker cannot be told that the objects are done with, and keeps them until the "+
				"lease is over: %s\n", errorLine(ctx, err))
		}
	}
	if s.bucket != nil {
		if err := s.bucket.Close(); err != nil {
			fmt.Fprintf(notes, "firn: close the store: %s\n", errorLine(ctx, err))
		}
	}
}

// pin has the broker keep the objects, and learns from it which they are. That is all that a broker is asked.
func (c *consumeRequest) pin(ctx context.Context, source *bucketSource, topic string) error {
	request := view.PinRequest{Topic: topic, LeaseMs: c.bucket.lease.Milliseconds()}
	for _, partition := range c.partitions {
		request.Partitions = append(request.Partitions, view.PinRange{Partition: partition})
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// An interrupt waits for the answer: a pin whose name nobody has learnt could not be ended.
	var pin view.Pin
	if err := c.bucket.server.send(context.WithoutCancel(ctx), view.PathPins, request, &pin); err != nil {
		return err
	}
	source.unpin = func(ctx context.Context) error {
		var ended view.PinStatus
		return c.bucket.server.delete(ctx, view.PathPins+"/"+pin.ID, &ended)
	}
	var err error
	if source.snapshot, err = pinnedSnapshot(&pin); err != nil {
		return fmt.Errorf("the broker's answer: %w", err)
	}
	for _, p := range pin.Partitions {
		end := p.HighWatermark
		if c.isolation == readCommitted {
			end = p.LastStableOffset
		}
		if end >= 0 {
			source.logEnds[p.Partition] = end
		}
	}
	if source.bucket != nil {
		return nil
	}
	if pin.Store == "" {
		return errors.New("the broker does not say where its store is: give --from-bucket URL")
	}
	source.bucket, err = openStore(ctx, pin.Store)
	return err
}

// pinnedSnapshot is what a broker has said that a pin keeps.
func pinnedSnapshot(pin *view.Pin) (*bulk.Snapshot, error) {
	snapshot := &bulk.Snapshot{Topic: pin.Topic}
	var err error
	if snapshot.ClusterID, err = checkpoint.ParseClusterID(pin.ClusterID); err != nil {
		return nil, err
	}
	if snapshot.Pin, err = checkpoint.ParseClusterID(pin.ID); err != nil {
		return nil, err
	}
	if snapshot.TopicID, err = kafka.ParseUUID(pin.TopicID); err != nil {
		return nil, err
	}
	for _, text := range pin.Origins {
		origin, err := checkpoint.ParseClusterID(text)
		if err != nil {
			return nil, err
		}
		snapshot.Origins = append(snapshot.Origins, origin)
	}
	for i := range pin.Partitions {
		p := &pin.Partitions[i]
		items, err := command.ParseItems(p.Items)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p.Partition, err)
		}
		snapshot.Partitions = append(snapshot.Partitions, bulk.Partition{
			Partition: p.Partition, Start: p.Start, End: p.End, Items: items,
		})
	}
	return snapshot, nil
}

// readCheckpoint does without a broker.
func (s *bucketSource) readCheckpoint(ctx context.Context, cluster, topic string, notes io.Writer) (err error) {
	var id kafka.UUID
	if cluster != "" {
		if id, err = checkpoint.ParseClusterID(cluster); err != nil {
			return fmt.Errorf("--cluster: %w", err)
		}
	}
	s.renew = func(ctx context.Context) (*bulk.Snapshot, error) { return bulk.FromBucket(ctx, s.bucket, id, topic) }
	if s.snapshot, err = s.renew(ctx); err != nil {
		return err
	}
	for _, damaged := range s.snapshot.Damaged {
		fmt.Fprintf(notes, "firn: passed over: %s\n", damaged)
	}
	fmt.Fprintf(notes, "firn: reading as of the checkpoint of %s and what was uploaded since, without what only brokers "+
		"have; only the grace time (firn.tier.gc.grace.ms) keeps what is read from being deleted\n",
		time.UnixMilli(s.snapshot.WrittenAt).UTC().Format(time.RFC3339))
	return nil
}

// offsetForTimestamp is what ListOffsets would answer.
func (s *bucketSource) offsetForTimestamp(ctx context.Context, partition int32, timestamp int64) (int64, error) {
	everything := bulk.NewReader(bulk.Options{Bucket: s.bucket, Snapshot: s.snapshot, ControlBatches: true})
	return everything.OffsetForTimestamp(ctx, partition, max(timestamp, 0))
}
