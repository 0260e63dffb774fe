package metastore

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

// drawCommand draws a command that fits the present image more often than not: about few topics and uploads, so that
// they meet, and with now and then a wrong epoch, version or offset.
func drawCommand(rt *rapid.T, m *machine, uploads *uploadsSeen) command.Command {
	img := m.image
	draw := func(what string, low, high int64) int64 { return rapid.Int64Range(low, high).Draw(rt, what) }
	if draw("about the tier", 0, 3) > 0 {
		if cmd := drawTierCommand(rt, m, uploads); cmd != nil {
			return cmd
		}
	}
	topic := id(fmt.Sprint("t", draw("topic", 0, 2)))
	switch draw("kind", 0, 10) {
	case 0:
		return registration(kafka.BrokerID(draw("broker", 1, 2)))
	case 1:
		return command.DeleteTopic{ID: topic, ElapsedMs: img.ElapsedMs + draw("elapsed", -5, 20)}
	case 2:
		return command.CreatePartitions{
			TopicID: topic, Existing: int32(draw("existing", 1, 2)), Partitions: newTopic("", 1).Partitions,
		}
	case 3:
		value := fmt.Sprint(draw("value", 0, 9))
		return command.AlterConfigs{Resource: command.ResourceBroker, Ops: []command.ConfigOp{
			{Name: "a", Value: &value}, {Name: value},
		}}
	case 10:
		value := fmt.Sprint(draw("value", 0, 9))
		return command.AlterConfigs{Resource: command.ResourceGroup, Name: strings.TrimLeft(value, "0"), Ops: []command.ConfigOp{
			{Name: "a", Value: &value}, {Name: value},
		}}
	case 4:
		return command.BumpLeaderEpochs{Broker: kafka.BrokerID(draw("broker", 1, 2))}
	case 5:
		return command.TopicCollected{TopicID: topic}
	case 6:
		return command.AllocateProducerIDs{Broker: 1, Count: int32(draw("count", 0, 1000))}
	default:
		created := newTopic(string(rune('a'+draw("name", 0, 2))), int(draw("partitions", 1, 2)))
		created.ID = topic
		return command.CreateTopics{Topics: []command.NewTopic{created}}
	}
}

// drawTierCommand draws a command about the tier of a partition that exists; nil if there is none.
func drawTierCommand(rt *rapid.T, m *machine, uploads *uploadsSeen) command.Command {
	img := m.image
	draw := func(what string, low, high int64) int64 { return rapid.Int64Range(low, high).Draw(rt, what) }
	// odd is 0 nine times out of ten, else 1: what is added to a value that should be right.
	odd := func(what string) int64 { return draw("odd "+what, 0, 9) / 9 }
	var targets []kafka.TopicIDPartition
	for topic := range img.Topics() {
		for i := range topic.Partitions {
			targets = append(targets, kafka.TopicIDPartition{ID: topic.ID, Partition: int32(i)})
		}
	}
	if len(targets) == 0 {
		return nil
	}
	tp := rapid.SampledFrom(targets).Draw(rt, "partition")
	partition, _ := img.PartitionByID(tp)
	tier := tierOf(partition)
	epoch := partition.Epoch + kafka.LeaderEpoch(odd("epoch"))
	// Upload ids are random: a leader never reserves one again.
	unused := []kafka.UUID{id(fmt.Sprintf("a%d", img.Index)), id(fmt.Sprintf("b%d", img.Index))}
	candidates := reservedOf(m, tp)
	if len(candidates) == 0 || odd("upload") > 0 {
		candidates = append(uploads.of(tp), unused[0])
	}
	upload := rapid.SampledFrom(candidates).Draw(rt, "upload")
	elapsed := img.ElapsedMs + draw("elapsed", -5, 20)
	if partition.Tier == nil {
		return command.OpenTier{Partition: tp, LeaderEpoch: epoch, Start: draw("start", 0, 100)}
	}
	items := itemsOf(m, tp)
	switch draw("tier kind", 0, 13) {
	case 0:
		return command.LapseReservations{ElapsedMs: elapsed}
	case 1:
		return command.Collected{Objects: []command.CollectedObject{drawCollected(rt, m, tp, upload)}}
	case 2:
		start := tier.Start + draw("further", 0, 30)
		below := uploads.below(items, start)
		// Only what can be seen to be wrong: nobody but the proposer can look into a part.
		below.Segments -= 100 * odd("segments below")
		below.Bytes += odd("bytes below") << 40
		return command.AdvanceStart{Partition: tp, LeaderEpoch: epoch, Start: start, ElapsedMs: elapsed, Below: below}
	case 3, 4, 5:
		if len(items) == 0 {
			return nil
		}
		from := int(draw("sealed from", 0, int64(len(items)-1)))
		to := from + 1
		for to < len(items) && to-from < 3 && items[to].Summary().Level == items[from].Summary().Level {
			to++
		}
		to = min(to+int(odd("sealed")), len(items))
		cmd := command.Seal{
			Partition: tp, LeaderEpoch: epoch, Version: tier.Version + odd("version"), Removed: ids(items[from:to]),
			Reference: referenceTo(items[from:to], upload),
		}
		uploads.candidate = items[from:to]
		return cmd
	case 6:
		if len(items) == 0 {
			return nil
		}
		from := int(draw("replaced from", 0, int64(len(items)-1)))
		to := from + int(draw("replaced", 1, min(3, int64(len(items)-from))))
		return uploads.replace(command.ReplaceRange{
			Partition: tp, LeaderEpoch: epoch, Version: tier.Version + odd("version"), Removed: ids(items[from:to]),
			Consumed: []kafka.UUID{upload}, ElapsedMs: elapsed,
		}, items[from:to])
	case 7, 8, 9, 10:
		base := tier.End + odd("base")
		return command.CommitSegment{
			Partition: tp, LeaderEpoch: epoch, Version: tier.Version + odd("version"),
			Entry: command.SegmentEntry{
				BaseOffset: base, EndOffset: base + draw("offsets", 1, 20), LeaderEpoch: partition.Epoch,
				UploadID: upload, DataBytes: 5, ObjectBytes: draw("bytes", 5, 1000),
			},
		}
	default:
		return command.ReserveUploads{
			Partition: tp, LeaderEpoch: epoch, UploadIDs: unused,
			ElapsedMs: elapsed, DeadlineMs: img.ElapsedMs + draw("deadline", 10, 200),
			Rewrite: rapid.Bool().Draw(rt, "rewrite"), From: tier.Start,
		}
	}
}

// Whatever the commands: the database holds what the image says, the tier adds up, no upload id is forgotten, and a
// node that applies the same log in other portions, with restarts, ends with the same bytes.
func TestTheStateMachineIsAFunctionOfItsLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cmds := []command.Command{registration(1)}
		db := openState(t, vfs.NewMem())
		defer closeState(t, db)
		m := newMachine(t, db)
		uploads := &uploadsSeen{promised: map[command.CollectedObject]bool{}, sealed: map[kafka.UUID][]command.Item{}}
		mustApply(t, m, cmds[0])
		for i := range rapid.IntRange(20, 80).Draw(rt, "length") {
			cmd := drawCommand(rt, m, uploads)
			cmds = append(cmds, cmd)
			before := describe(m.image)
			_, refusal := apply(m, cmd)
			uploads.follow(m, cmd, refusal)
			if refusal != nil && kafka.CodeOf(refusal) == kafka.UnknownServerError {
				rt.Fatalf("%#v is refused without a code: %v", cmd, refusal)
			}
			if refusal == nil {
				checkTier(rt, m, uploads)
			}
			if refusal != nil && withoutIndex(before) != withoutIndex(describe(m.image)) {
				rt.Fatalf("command %d, %#v, is refused and changes the image:\n%s%s", i, cmd, before, describe(m.image))
			}
		}
		expectLoaded(t, db, m.image)

		other := openState(t, vfs.NewMem())
		defer closeState(t, other)
		replay(t, rt, other, cmds)
		if diff := cmp.Diff(dumpReplicated(t, db), dumpReplicated(t, other)); diff != "" {
			rt.Fatalf("the same log gives another state (-first +second):\n%s", diff)
		}
	})
}

func withoutIndex(description string) string {
	var index int
	_, _ = fmt.Sscanf(description, "index %d", &index)
	return description[len(fmt.Sprintf("index %d", index)):]
}

// replay applies a log in random portions; after each the node may restart, and see a part of the log again.
func replay(t *testing.T, rt *rapid.T, db *state.DB, cmds []command.Command) {
	m := newMachine(t, db)
	for next := 0; next < len(cmds); {
		size := rapid.IntRange(1, 20).Draw(rt, "portion")
		again := rapid.IntRange(0, 5).Draw(rt, "again")
		var entries []*raft.Log
		for i := max(0, next-again); i < min(len(cmds), next+size); i++ {
			entries = append(entries, logEntry(uint64(i+1), cmds[i]))
		}
		m.ApplyBatch(entries)
		next = min(len(cmds), next+size)
		if rapid.Bool().Draw(rt, "restart") {
			m = newMachine(t, db)
		}
	}
}

// drawCollected names a piece of garbage, or now and then something that may be none.
func drawCollected(rt *rapid.T, m *machine, tp kafka.TopicIDPartition, upload kafka.UUID) command.CollectedObject {
	object := command.CollectedObject{Partition: tp, UploadID: upload}
	if garbage := garbageOf(m, tp); len(garbage) > 0 && rapid.Bool().Draw(rt, "garbage") {
		object = rapid.SampledFrom(garbage).Draw(rt, "piece").Object()
	}
	return object
}

func garbageOf(m *machine, tp kafka.TopicIDPartition) (all []command.Garbage) {
	_ = m.db.Space(state.SpaceTier).Scan(partitionKey(keyGarbage, tp), func(key, value []byte) error {
		garbage, err := parseGarbage(key, value)
		if err != nil {
			panic(err)
		}
		all = append(all, garbage)
		return nil
	})
	return all
}

// reservedOf lists the upload ids that may still be committed.
func reservedOf(m *machine, tp kafka.TopicIDPartition) (ids []kafka.UUID) {
	_ = m.db.Space(state.SpaceTier).Scan(partitionKey(keyReservation, tp), func(key, _ []byte) error {
		_, upload := parseUpload(key)
		ids = append(ids, upload)
		return nil
	})
	return ids
}

func itemsOf(m *machine, tp kafka.TopicIDPartition) []command.Item {
	batch := m.db.NewReadWriteBatch()
	defer batch.Close()
	step := &transition{batch: batch, image: m.image}
	items := step.items(tp)
	if step.fault != nil {
		panic(step.fault)
	}
	return items
}

func ids(items []command.Item) (ids []kafka.UUID) {
	for _, item := range items {
		ids = append(ids, item.Summary().UploadID)
	}
	return ids
}

// referenceTo makes a reference that is right if the items are all of one level.
func referenceTo(items []command.Item, upload kafka.UUID) command.Reference {
	sum := command.Summarize(items)
	return command.Reference{
		Level: min(items[0].Summary().Level+1, command.LevelNode), BaseOffset: sum.BaseOffset, EndOffset: sum.EndOffset,
		UploadID: upload, Segments: sum.Segments, DataBytes: sum.DataBytes, ObjectBytes: sum.ObjectBytes, SealedBytes: 9,
		MinTimestamp: sum.MinTimestamp, MaxTimestamp: sum.MaxTimestamp, MaxTimestampOffset: sum.MaxTimestampOffset,
		FirstAppendedAt: sum.FirstAppendedAt, LastAppendedAt: sum.LastAppendedAt, Flags: sum.Flags,
	}
}

// uploadsSeen keeps the upload ids that were promised to be committed or collected, and what is in sealed objects.
type uploadsSeen struct {
	promised  map[command.CollectedObject]bool
	sealed    map[kafka.UUID][]command.Item
	candidate []command.Item // of the last Seal that was drawn
}

// of lists a partition's, in order.
func (u *uploadsSeen) of(tp kafka.TopicIDPartition) []kafka.UUID {
	var ids []kafka.UUID
	for object := range u.promised {
		if object.Partition == tp {
			ids = append(ids, object.UploadID)
		}
	}
	slices.SortFunc(ids, func(a, b kafka.UUID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

// segments lists those that an item stands for.
func (u *uploadsSeen) segments(item command.Item) (all []command.SegmentEntry) {
	if entry, ok := item.(command.SegmentEntry); ok {
		return []command.SegmentEntry{entry}
	}
	for _, inner := range u.sealed[item.Summary().UploadID] {
		all = append(all, u.segments(inner)...)
	}
	return all
}

// below counts as whoever moves the log start has to.
func (u *uploadsSeen) below(items []command.Item, start int64) (below command.Below) {
	for _, item := range items {
		s := item.Summary()
		if s.Level == 0 || s.BaseOffset >= start || s.EndOffset <= start {
			continue
		}
		below.Reference = s.UploadID
		for _, entry := range u.segments(item) {
			if entry.EndOffset <= start {
				below.Segments++
				below.Bytes += entry.ObjectBytes
			}
		}
	}
	return below
}

// replace completes a command that puts one segment in the place of items.
func (u *uploadsSeen) replace(cmd command.ReplaceRange, removed []command.Item) command.ReplaceRange {
	sum := command.Summarize(removed)
	cmd.Added = []command.Item{command.SegmentEntry{
		BaseOffset: sum.BaseOffset, EndOffset: sum.EndOffset, UploadID: cmd.Consumed[0], DataBytes: 3, ObjectBytes: 7,
	}}
	for _, item := range removed {
		for _, inner := range u.sealed[item.Summary().UploadID] {
			u.discard(&cmd, inner)
		}
	}
	return cmd
}

func (u *uploadsSeen) discard(cmd *command.ReplaceRange, item command.Item) {
	cmd.Discarded = append(cmd.Discarded, replaced(item))
	for _, inner := range u.sealed[item.Summary().UploadID] {
		u.discard(cmd, inner)
	}
}

func (u *uploadsSeen) follow(m *machine, cmd command.Command, refusal error) {
	if refusal != nil {
		return
	}
	switch cmd := cmd.(type) {
	case command.ReserveUploads:
		for _, upload := range cmd.UploadIDs {
			u.promised[command.CollectedObject{Partition: cmd.Partition, UploadID: upload}] = true
		}
	case command.Seal:
		u.sealed[cmd.Reference.UploadID] = u.candidate
	case command.Collected:
		for _, object := range cmd.Objects {
			u.forget(object) // if it was no garbage, it is only not looked at any more
		}
	case command.DeleteTopic:
		for object := range u.promised {
			if object.Partition.ID == cmd.ID {
				delete(u.promised, object)
			}
		}
	}
}

// forget stops looking at what was collected: an object, a tree, or what of a tree ends at or before an offset.
func (u *uploadsSeen) forget(object command.CollectedObject) {
	for _, inner := range u.sealed[object.UploadID] {
		s := inner.Summary()
		if object.To == 0 || s.EndOffset <= object.To || s.Level > 0 {
			u.forget(command.CollectedObject{Partition: object.Partition, UploadID: s.UploadID, To: object.To})
		}
	}
	object.To = 0
	delete(u.promised, object)
}

// checkTier checks that each partition's segments are one range that ends at the remote end and sums up to its totals,
// and that each promised upload is reserved, part of the manifest, or garbage (or was collected as garbage before).
func checkTier(rt *rapid.T, m *machine, uploads *uploadsSeen) {
	for topic := range m.image.Topics() {
		for i := range topic.Partitions {
			tp := kafka.TopicIDPartition{ID: topic.ID, Partition: int32(i)}
			checkPartition(rt, m, tp, topic.Partitions[i].Tier, uploads)
		}
	}
}

func checkPartition(
	rt *rapid.T, m *machine, tp kafka.TopicIDPartition, tier *image.TierState, uploads *uploadsSeen,
) {
	items := itemsOf(m, tp)
	if tier == nil {
		if len(items) != 0 {
			rt.Fatalf("%s is not tiered and has %v", tp, items)
		}
		return
	}
	sum := image.TierState{Start: tier.Start, End: tier.Start, LeaderEpoch: tier.LeaderEpoch, Version: tier.Version}
	live := map[kafka.UUID]bool{}
	for i, item := range items {
		s := item.Summary()
		if i == 0 && (s.BaseOffset > tier.Start || s.EndOffset <= tier.Start) {
			rt.Fatalf("%s starts at %d, but its first item is [%d, %d)", tp, tier.Start, s.BaseOffset, s.EndOffset)
		}
		if i > 0 && s.BaseOffset != sum.End {
			rt.Fatalf("%s has a gap: %d is followed by %d", tp, sum.End, s.BaseOffset)
		}
		sum.End = s.EndOffset
		for _, entry := range uploads.segments(item) {
			if entry.EndOffset <= tier.Start {
				continue
			}
			sum.Bytes += entry.ObjectBytes
			sum.Segments++
		}
		uploads.walk(item, func(inner command.Item) {
			if s := inner.Summary(); s.Level > 0 || s.EndOffset > tier.Start {
				live[s.UploadID] = true
			}
		})
	}
	if diff := cmp.Diff(sum, *tier); diff != "" {
		rt.Fatalf("the tier state of %s does not fit its segments (-segments +state):\n%s", tp, diff)
	}
	checkPromises(rt, m, tp, live, uploads)
}

// walk visits an item and all below it.
func (u *uploadsSeen) walk(item command.Item, visit func(command.Item)) {
	visit(item)
	for _, inner := range u.sealed[item.Summary().UploadID] {
		u.walk(inner, visit)
	}
}

func checkPromises(
	rt *rapid.T, m *machine, tp kafka.TopicIDPartition, live map[kafka.UUID]bool, uploads *uploadsSeen,
) {
	gone := map[kafka.UUID]bool{}
	for _, garbage := range garbageOf(m, tp) {
		if garbage.Kind != command.ExpiredTree {
			gone[garbage.UploadID] = true
			continue
		}
		uploads.walk(garbage.Tree, func(inner command.Item) {
			s := inner.Summary()
			if garbage.Whole || s.Level == 0 && s.EndOffset > garbage.From && s.EndOffset <= garbage.To {
				gone[s.UploadID] = true
			}
		})
	}
	batch := m.db.NewReadWriteBatch()
	defer batch.Close()
	step := &transition{batch: batch, image: m.image}
	for object := range uploads.promised {
		if object.Partition != tp {
			continue
		}
		places := 0
		_, reserved := step.reservation(tp, object.UploadID)
		for _, here := range []bool{reserved, live[object.UploadID], gone[object.UploadID]} {
			if here {
				places++
			}
		}
		if places != 1 {
			rt.Fatalf("upload %s of %s is forgotten, or in two places: reserved %v, in the manifest %v, garbage %v",
				idText(object.UploadID), tp, reserved, live[object.UploadID], gone[object.UploadID])
		}
	}
}
