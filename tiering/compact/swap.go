package compact

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// swapAttempts: an upload, a seal or a moved log start may come in between, and then the manifest is looked at anew.
const swapAttempts = 10

// reserve reserves upload ids for objects that begin at an offset or above.
func (l *Log) reserve(ctx context.Context, count int, from int64) ([]kafka.UUID, error) {
	ids := make([]kafka.UUID, count)
	for i := range ids {
		ids[i] = newUploadID()
	}
	now := l.options.Metadata.ElapsedMs()
	_, err := l.options.Metadata.Propose(ctx, command.ReserveUploads{
		Partition: l.tp, LeaderEpoch: l.epoch, UploadIDs: ids, ElapsedMs: now,
		DeadlineMs: now + l.options.Reservation.Milliseconds(), Rewrite: true, From: from,
	})
	return ids, err
}

// swap has a new segment take the place of the old ones. An outcome that is not known is looked up.
func (l *Log) swap(ctx context.Context, s *Sink, entry command.SegmentEntry) error {
	for attempt := 1; ; attempt++ {
		tier, items, err := l.options.Metadata.Items(l.tp)
		if err != nil {
			return err
		}
		p := &plan{log: l, sink: s, entry: entry, consumed: []kafka.UUID{entry.UploadID}}
		cmd, err := p.command(ctx, items, tier.Start)
		if err != nil {
			return err
		}
		cmd.Version = tier.Version
		_, err = l.options.Metadata.Propose(ctx, cmd)
		if err == nil {
			return nil
		}
		if done, lookErr := l.isPlaced(ctx, entry); done || lookErr != nil {
			return errors.Join(lookErr)
		}
		if !errors.Is(err, command.ErrTierMoved) || attempt == swapAttempts {
			return err
		}
	}
}

// isPlaced tells whether the manifest has a segment.
func (l *Log) isPlaced(ctx context.Context, entry command.SegmentEntry) (bool, error) {
	l.options.Manifests.Forget(l.tp)
	tree, err := l.options.Manifests.Get(ctx, l.tp)
	if err != nil {
		return false, err
	}
	found, ok, err := tree.Find(ctx, entry.BaseOffset)
	return ok && found.UploadID == entry.UploadID, err
}

// plan is how the manifest changes when a segment takes the place of others.
type plan struct {
	log       *Log
	sink      *Sink
	entry     command.SegmentEntry
	placed    bool
	replaced  int // how many of the old segments were found
	consumed  []kafka.UUID
	discarded []command.Garbage
}

// command makes the command. Sealed objects that it needs are in the bucket when it returns.
func (p *plan) command(ctx context.Context, items []command.Item, start int64) (command.ReplaceRange, error) {
	from := slices.IndexFunc(items, func(item command.Item) bool { return item.Summary().EndOffset > p.sink.firstBase })
	to := slices.IndexFunc(items, func(item command.Item) bool { return item.Summary().EndOffset >= p.sink.endBase })
	if from < 0 || to < from {
		return command.ReplaceRange{}, storage.ErrSegmentsChanged
	}
	removed := items[from : to+1]
	added, err := p.rebuild(ctx, removed, true)
	if err == nil && p.replaced != len(p.sink.old) {
		err = storage.ErrSegmentsChanged
	}
	if err != nil {
		return command.ReplaceRange{}, err
	}
	cmd := command.ReplaceRange{
		Partition: p.log.tp, LeaderEpoch: p.log.epoch, Added: added, Consumed: p.consumed, Discarded: p.discarded,
		ElapsedMs: p.log.options.Metadata.ElapsedMs(),
	}
	for _, item := range removed {
		cmd.Removed = append(cmd.Removed, item.Summary().UploadID)
	}
	if from == 0 {
		cmd.Below, err = p.below(ctx, added, start)
	}
	return cmd, err
}

// rebuild gives the items with the new segment in the place of the old ones: in the first list of segments that had one
// of them. What of sealed objects has changed is sealed anew. What goes from the top level the command itself discards.
func (p *plan) rebuild(ctx context.Context, items []command.Item, top bool) (rebuilt []command.Item, err error) {
	for _, item := range items {
		s := item.Summary()
		if s.EndOffset <= p.sink.firstBase || s.BaseOffset >= p.sink.endBase {
			rebuilt = append(rebuilt, item)
			continue
		}
		if !top {
			p.discard(item)
		}
		reference, sealed := item.(command.Reference)
		if !sealed {
			if !slices.ContainsFunc(p.sink.old, func(old command.SegmentEntry) bool { return old.UploadID == s.UploadID }) {
				return nil, storage.ErrSegmentsChanged
			}
			p.replaced++
			if !p.placed {
				p.placed = true
				rebuilt = append(rebuilt, p.entry)
			}
			continue
		}
		inner, err := p.log.options.Manifests.Open(ctx, p.log.tp, reference)
		if err == nil {
			inner, err = p.rebuild(ctx, inner, false)
		}
		if err != nil {
			return nil, err
		}
		if len(inner) > 0 {
			next, err := p.seal(ctx, inner)
			if err != nil {
				return nil, err
			}
			rebuilt = append(rebuilt, next)
		}
	}
	return rebuilt, nil
}

func (p *plan) discard(item command.Item) {
	s := item.Summary()
	garbage := command.Garbage{
		Kind: command.RemovedSegment, UploadID: s.UploadID, Origin: s.Origin(), LeaderEpoch: s.LeaderEpoch,
		BaseOffset: s.BaseOffset, EndOffset: s.EndOffset, ObjectBytes: s.ObjectBytes,
	}
	if reference, sealed := item.(command.Reference); sealed {
		garbage.Kind, garbage.Tree, garbage.ObjectBytes = command.ReplacedManifest, reference, int64(reference.SealedBytes)
	}
	p.discarded = append(p.discarded, garbage)
}

// seal puts a sealed object of items into the bucket.
func (p *plan) seal(ctx context.Context, items []command.Item) (command.Reference, error) {
	l := p.log
	ids, err := l.reserve(ctx, 1, items[0].Summary().BaseOffset)
	if err != nil {
		return command.Reference{}, err
	}
	data, reference := manifest.Seal(segment.Key{
		ClusterID: l.topic.OriginID(l.options.ClusterID, l.topic.Origin()), Partition: l.tp, LeaderEpoch: l.epoch,
		UploadID: ids[0],
	}, l.topic.Name, l.topic.Origin(), items)
	p.consumed = append(p.consumed, ids[0])
	return reference, l.options.Bucket.Put(ctx, l.key(reference), bytes.NewReader(data), int64(len(data)),
		objectstore.PutOptions{CRC32C: reference.Checksum, HasCRC32C: true})
}

// below counts what of the reference in which the log start lies is below it.
func (p *plan) below(ctx context.Context, items []command.Item, start int64) (below command.Below, err error) {
	inside, sealed := items[0].(command.Reference)
	if !sealed || inside.BaseOffset >= start || inside.EndOffset <= start {
		return command.Below{}, nil
	}
	below.Reference = inside.UploadID
	for at := items[:1]; len(at) > 0; {
		reference, sealed := at[0].(command.Reference)
		if !sealed {
			break
		}
		inner, err := p.log.options.Manifests.Open(ctx, p.log.tp, reference)
		if err != nil {
			return command.Below{}, err
		}
		for len(inner) > 0 && inner[0].Summary().EndOffset <= start {
			below.Segments += inner[0].Summary().Segments
			below.Bytes += inner[0].Summary().ObjectBytes
			inner = inner[1:]
		}
		if len(inner) > 0 && inner[0].Summary().BaseOffset >= start {
			break
		}
		at = inner
	}
	return below, nil
}
