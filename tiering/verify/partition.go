package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

func tiered(topic *image.Topic) bool {
	return slices.ContainsFunc(topic.Partitions, func(p image.Partition) bool { return p.Tier != nil })
}

// verify goes on with the verification under way until it is done.
func (v *Verifier) verify(ctx context.Context) error {
	at := v.Progress()
	todo := v.partitions(at.Request)
	v.note(func(p *Progress) { p.Partitions, p.Err = len(todo), "" })
	cursor := kafka.TopicIDPartition{ID: at.Topic, Partition: at.Partition}
	for done, tp := range todo {
		offset := int64(0)
		switch order := comparePartitions(tp, cursor); {
		case order < 0:
			continue
		case order == 0:
			offset = at.Offset
		}
		v.note(func(p *Progress) { p.Verified = done })
		if err := v.verifyPartition(ctx, tp, offset); err != nil {
			return err
		}
	}
	v.note(func(p *Progress) { p.Verified = len(todo) })
	return nil
}

// partitions lists what a request is about, in the order in which it is verified: one that a restart does not change.
func (v *Verifier) partitions(request Request) []kafka.TopicIDPartition {
	var todo []kafka.TopicIDPartition
	for topic := range v.options.Metadata.Image().Topics() {
		if len(request.Topics) > 0 && !slices.Contains(request.Topics, topic.Name) {
			continue
		}
		for i := range topic.Partitions {
			if topic.Partitions[i].Tier != nil {
				todo = append(todo, kafka.TopicIDPartition{ID: topic.ID, Partition: int32(i)})
			}
		}
	}
	slices.SortFunc(todo, comparePartitions)
	return todo
}

func comparePartitions(a, b kafka.TopicIDPartition) int {
	return cmp.Or(slices.Compare(a.ID[:], b.ID[:]), cmp.Compare(a.Partition, b.Partition))
}

// note changes the progress of the verification under way.
func (v *Verifier) note(change func(*Progress)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(&v.progress)
}

// windowItems is how many objects are held against a listing at a time, and how often the place is noted: about what a
// store lists at once.
const windowItems = 1000

// partition is one while it is verified.
type partition struct {
	*Verifier
	tp    kafka.TopicIDPartition
	topic *image.Topic
}

// verifyPartition verifies a partition from an offset on. One that has gone meanwhile has nothing to verify.
func (v *Verifier) verifyPartition(ctx context.Context, tp kafka.TopicIDPartition, offset int64) error {
	topic, found := v.options.Metadata.Image().TopicByID(tp.ID)
	if !found {
		return nil
	}
	p := &partition{Verifier: v, tp: tp, topic: topic}
	for more := true; more; {
		tree, err := v.options.Manifests.Get(ctx, tp)
		if errors.Is(err, kafka.NotLeaderOrFollower) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("verify %s-%d: %w", topic.Name, tp.Partition, err)
		}
		next, end, err := p.window(ctx, tree, offset)
		if err != nil {
			return fmt.Errorf("verify %s-%d from offset %d: %w", topic.Name, tp.Partition, offset, err)
		}
		offset, more = next, !end
		v.mu.Lock()
		v.progress.Topic, v.progress.Partition, v.progress.Offset = tp.ID, tp.Partition, offset
		if end {
			v.progress.Partition, v.progress.Offset = tp.Partition+1, 0
		}
		if ctx.Err() == nil {
			v.save()
		}
		v.mu.Unlock()
	}
	return ctx.Err()
}

// window verifies the objects that begin at an offset or above, as many as fit, and tells where the next ones begin.
func (p *partition) window(ctx context.Context, tree *manifest.Tree, from int64) (next int64, end bool, err error) {
	wanted := map[string]command.Item{}
	var segments []command.SegmentEntry
	next, end = tree.End, true
	for item, err := range tree.Walk(ctx, from, tree.End) {
		if err != nil && !manifest.IsDamaged(err) {
			return 0, false, err
		}
		if err != nil {
			p.find(Manifest, item, tree.Key(item).String(), err.Error())
			continue
		}
		summary := item.Summary()
		if len(segments) >= windowItems {
			next, end = summary.BaseOffset, false
			break
		}
		if from > 0 && summary.BaseOffset < from { // the window before has seen it
			continue
		}
		wanted[tree.Key(item).String()] = item
		if entry, isSegment := item.(command.SegmentEntry); isSegment {
			segments = append(segments, entry)
		}
	}
	if err := p.compare(ctx, wanted, from, next); err != nil {
		return 0, false, err
	}
	if p.Progress().Depth == Listing {
		return next, end, nil
	}
	for _, entry := range segments {
		if err := p.examine(ctx, tree.Key(entry).String(), entry); err != nil {
			return 0, false, err
		}
	}
	return next, end, nil
}

// compare holds a window of the manifest against listings: those of all clusters that have written to the topic.
func (p *partition) compare(ctx context.Context, wanted map[string]command.Item, from, to int64,
) error {
	seen := map[string]bool{}
	var unknown []segment.Key
	clusters := p.topic.Origins
	if len(clusters) == 0 {
		clusters = []kafka.UUID{p.options.ClusterID}
	}
	for _, cluster := range clusters {
		for _, kind := range []segment.Kind{segment.KindSegment, segment.KindLeaf, segment.KindNode} {
			folder := segment.Folder(cluster, p.tp, kind)
			err := p.options.Bucket.List(ctx, folder, segment.StartAfterIn(folder, from),
				func(object objectstore.ObjectInfo) error {
					key, err := segment.ParseKey(object.Key)
					if err == nil && key.BaseOffset >= to {
						return fs.SkipAll
					}
					item, known := wanted[object.Key]
					switch {
					case known:
						seen[object.Key] = true
						p.checkSize(item, object)
					case err == nil:
						unknown = append(unknown, key)
					}
					return nil
				})
			if err != nil {
				return err
			}
		}
	}
	p.metrics.objects.Add(float64(len(wanted)))
	p.note(func(progress *Progress) { progress.Objects += int64(len(wanted)) })
	for name, item := range wanted {
		if !seen[name] {
			if err := p.confirmMissing(ctx, name, item); err != nil {
				return err
			}
		}
	}
	return p.confirmUnknown(ctx, unknown)
}

func (p *partition) checkSize(item command.Item, object objectstore.ObjectInfo) {
	size := int64(0)
	switch item := item.(type) {
	case command.SegmentEntry:
		size = item.ObjectBytes
	case command.Reference:
		size = int64(item.SealedBytes)
	}
	if size != object.Size {
		p.find(Size, item, object.Key, fmt.Sprintf("it has %d bytes instead of %d", object.Size, size))
	}
}

// confirmMissing asks for an object by its name, since a listing may be stale, and whether it is still part of the log.
func (p *partition) confirmMissing(ctx context.Context, name string, item command.Item) error {
	_, err := p.options.Bucket.Stat(ctx, name)
	if err == nil || !errors.Is(err, objectstore.ErrNotFound) {
		return err
	}
	key, err := segment.ParseKey(name)
	if err != nil {
		return err
	}
	still, err := p.options.Manifests.Has(ctx, key)
	if still && err == nil {
		p.find(Missing, item, name, "the manifest has it and the bucket has not")
	}
	return err
}

// confirmUnknown asks who may know an object that a listing has and the manifest had not. Reservations are read before
// the manifest, as that is the way an upload goes.
func (p *partition) confirmUnknown(ctx context.Context, keys []segment.Key) error {
	if len(keys) == 0 {
		return nil
	}
	reserved, err := p.options.Metadata.Reserved(p.tp)
	if err != nil {
		return err
	}
	garbage, err := p.options.Metadata.Garbage()
	if err != nil {
		return err
	}
	for _, key := range keys {
		isGarbage := slices.ContainsFunc(garbage, func(piece command.Garbage) bool { return p.waits(piece, key) })
		if isGarbage || slices.Contains(reserved, key.UploadID) {
			continue
		}
		known, err := p.options.Manifests.Has(ctx, key)
		if err != nil {
			return err
		}
		if known {
			continue
		}
		text := key.String()
		_, err = p.options.Bucket.Stat(ctx, text)
		if errors.Is(err, objectstore.ErrNotFound) {
			continue // it was garbage, and has just gone
		}
		if err != nil {
			return err
		}
		p.report(Finding{
			Kind: Unknown, Topic: p.topic.Name, Partition: p.tp.Partition, BaseOffset: key.BaseOffset,
			EndOffset: key.EndOffset, Key: text, Detail: "nothing refers to it",
		})
	}
	return nil
}

// waits tells whether a piece of garbage is about an object.
func (p *partition) waits(piece command.Garbage, key segment.Key) bool {
	if piece.Partition != p.tp {
		return false
	}
	switch piece.Kind {
	case command.ExpiredTree:
		if piece.Whole {
			return key.BaseOffset >= piece.Tree.BaseOffset && key.EndOffset <= piece.Tree.EndOffset
		}
		return key.Kind == segment.KindSegment && key.EndOffset > piece.From && key.EndOffset <= piece.To
	case command.ReplacedManifest:
		return piece.Tree.UploadID == key.UploadID
	}
	return piece.UploadID == key.UploadID
}

// examine looks into a segment.
func (p *partition) examine(ctx context.Context, key string, entry command.SegmentEntry) error {
	var tail *segment.Tail
	var err error
	if p.Progress().Depth == Data {
		tail, err = segment.Verify(ctx, &objectReader{p: p, ctx: ctx, key: key, size: entry.ObjectBytes}, entry.ObjectBytes)
	} else {
		tail, err = segment.ReadTail(ctx, p.options.Bucket, key, entry.ObjectBytes, entry.TailBytes)
		p.read(int64(entry.TailBytes))
	}
	switch {
	case segment.IsCorrupt(err), errors.Is(err, io.ErrUnexpectedEOF):
		p.find(Damaged, entry, key, err.Error())
		return nil
	case errors.Is(err, objectstore.ErrNotFound):
		return nil // the listing has told, or it was collected meanwhile
	case err != nil:
		return err
	}
	if told := tail.Entry(); !sameSegment(told, entry) || tail.Partition != p.tp {
		p.find(Damaged, entry, key, fmt.Sprintf("its tail says %+v, the manifest %+v", told, entry))
	}
	return nil
}

func sameSegment(a, b command.SegmentEntry) bool {
	a.Flags, b.Flags = a.Flags&0xff, b.Flags&0xff // the rest says whose the object is
	return a == b
}

// read accounts for bytes that were read.
func (p *partition) read(bytes int64) {
	p.metrics.bytes.Add(float64(bytes))
	p.note(func(progress *Progress) { progress.Bytes += bytes })
}

func (p *partition) find(kind Kind, item command.Item, key, detail string) {
	summary := item.Summary()
	p.report(Finding{
		Kind: kind, Topic: p.topic.Name, Partition: p.tp.Partition, BaseOffset: summary.BaseOffset,
		EndOffset: summary.EndOffset, Key: key, Detail: detail,
	})
}

// report takes in a finding. The same one may come again when a window is looked at once more.
func (p *partition) report(finding Finding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := func(f Finding) bool { return f.Kind == finding.Kind && f.Key == finding.Key }
	if slices.ContainsFunc(p.progress.Findings, same) {
		return
	}
	p.progress.Found[finding.Kind]++
	if len(p.progress.Findings) < maxFindings {
		p.progress.Findings = append(p.progress.Findings, finding)
	}
	p.options.Logger.Error("the bucket is not as it should be", "finding", string(finding.Kind), "key", finding.Key,
		"detail", finding.Detail)
}

// blockBytes is how much of an object is read at once.
const blockBytes = 8 << 20

// objectReader reads an object block by block within the budget.
type objectReader struct {
	p     *partition
	ctx   context.Context
	key   string
	size  int64
	block []byte
	at    int64 // where block begins
}

// ReadAt implements io.ReaderAt.
func (r *objectReader) ReadAt(dst []byte, position int64) (n int, err error) {
	for n < len(dst) {
		if position >= r.size {
			return n, io.EOF
		}
		if position < r.at || position >= r.at+int64(len(r.block)) {
			if err := r.load(position); err != nil {
				return n, err
			}
		}
		copied := copy(dst[n:], r.block[position-r.at:])
		n, position = n+copied, position+int64(copied)
	}
	return n, nil
}

func (r *objectReader) load(position int64) error {
	want := int(min(blockBytes, r.size-position))
	if _, err := r.p.budget.Spend(r.ctx, int64(want)); err != nil {
		return err
	}
	if cap(r.block) < want {
		r.block = make([]byte, want)
	}
	r.block, r.at = r.block[:want], position
	if _, err := r.p.options.Bucket.Get(r.ctx, r.key, position, r.block); err != nil {
		r.block = r.block[:0]
		return err
	}
	r.p.read(int64(want))
	return nil
}
