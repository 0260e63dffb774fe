package metastore

import (
	"bytes"
	"fmt"
	"slices"
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
func drawCommand(rt *rapid.T, img *image.Image, uploads uploadsSeen) command.Command {
	draw := func(what string, low, high int64) int64 { return rapid.Int64Range(low, high).Draw(rt, what) }
	if draw("about the tier", 0, 3) > 0 {
		if cmd := drawTierCommand(rt, img, uploads); cmd != nil {
			return cmd
		}
	}
	topic := id(fmt.Sprint("t", draw("topic", 0, 2)))
	switch draw("kind", 0, 9) {
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
func drawTierCommand(rt *rapid.T, img *image.Image, uploads uploadsSeen) command.Command {
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
	upload := rapid.SampledFrom(append(uploads.of(tp), unused[0])).Draw(rt, "upload")
	elapsed := img.ElapsedMs + draw("elapsed", -5, 20)
	if partition.Tier == nil {
		return command.OpenTier{Partition: tp, LeaderEpoch: epoch, Start: draw("start", 0, 100)}
	}
	switch draw("tier kind", 0, 9) {
	case 0:
		return command.LapseReservations{ElapsedMs: elapsed}
	case 1:
		return command.Collected{Objects: []command.CollectedObject{{Partition: tp, UploadID: upload}}}
	case 2:
		start := tier.Start + draw("further", 0, 30)
		return command.AdvanceStart{Partition: tp, LeaderEpoch: epoch, Start: start, ElapsedMs: elapsed}
	case 3, 4, 5, 6:
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
		uploads := uploadsSeen{}
		mustApply(t, m, cmds[0])
		for i := range rapid.IntRange(20, 80).Draw(rt, "length") {
			cmd := drawCommand(rt, m.image, uploads)
			cmds = append(cmds, cmd)
			before := describe(m.image)
			_, refusal := apply(m, cmd)
			uploads.follow(cmd, refusal)
			if refusal != nil && kafka.CodeOf(refusal) == kafka.UnknownServerError {
				rt.Fatalf("%#v is refused without a code: %v", cmd, refusal)
			}
			if refusal != nil && withoutIndex(before) != withoutIndex(describe(m.image)) {
				rt.Fatalf("command %d, %#v, is refused and changes the image:\n%s%s", i, cmd, before, describe(m.image))
			}
		}
		expectLoaded(t, db, m.image)
		checkTier(rt, m, uploads)

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

// uploadsSeen keeps the upload ids that were promised to be committed or collected.
type uploadsSeen map[command.CollectedObject]bool

// of lists a partition's, in order.
func (u uploadsSeen) of(tp kafka.TopicIDPartition) []kafka.UUID {
	var ids []kafka.UUID
	for object := range u {
		if object.Partition == tp {
			ids = append(ids, object.UploadID)
		}
	}
	slices.SortFunc(ids, func(a, b kafka.UUID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

func (u uploadsSeen) follow(cmd command.Command, refusal error) {
	if refusal != nil {
		return
	}
	switch cmd := cmd.(type) {
	case command.ReserveUploads:
		for _, upload := range cmd.UploadIDs {
			u[command.CollectedObject{Partition: cmd.Partition, UploadID: upload}] = true
		}
	case command.Collected:
		for _, object := range cmd.Objects {
			delete(u, object) // if it was no garbage, it is only not looked at any more
		}
	case command.DeleteTopic:
		for object := range u {
			if object.Partition.ID == cmd.ID {
				delete(u, object)
			}
		}
	}
}

// checkTier checks that each partition's entries are one range that ends at the remote end and sums up to its totals,
// and that each promised upload is reserved, part of the log, or garbage (or was collected as garbage before).
func checkTier(rt *rapid.T, m *machine, uploads uploadsSeen) {
	for topic := range m.image.Topics() {
		for i := range topic.Partitions {
			tp := kafka.TopicIDPartition{ID: topic.ID, Partition: int32(i)}
			checkPartition(rt, m, tp, topic.Partitions[i].Tier, uploads)
		}
	}
}

func checkPartition(
	rt *rapid.T, m *machine, tp kafka.TopicIDPartition, tier *image.TierState, uploads uploadsSeen,
) {
	batch := m.db.NewReadWriteBatch()
	defer batch.Close()
	step := &transition{batch: batch, image: m.image}
	entries := step.entriesBelow(tp, 1<<62)
	if tier == nil {
		if len(entries) != 0 {
			rt.Fatalf("%s is not tiered and has %v", tp, entries)
		}
		return
	}
	sum := image.TierState{Start: tier.Start, End: tier.Start, LeaderEpoch: tier.LeaderEpoch, Version: tier.Version}
	for i, entry := range entries {
		if i == 0 && (entry.BaseOffset > tier.Start || entry.EndOffset <= tier.Start) {
			rt.Fatalf("%s starts at %d, but its first segment is [%d, %d)",
				tp, tier.Start, entry.BaseOffset, entry.EndOffset)
		}
		if i > 0 && entry.BaseOffset != sum.End {
			rt.Fatalf("%s has a gap: %d is followed by %d", tp, sum.End, entry.BaseOffset)
		}
		sum.End = entry.EndOffset
		sum.Bytes += entry.ObjectBytes
		sum.Segments++
		delete(uploads, command.CollectedObject{Partition: tp, UploadID: entry.UploadID})
	}
	if diff := cmp.Diff(sum, *tier); diff != "" {
		rt.Fatalf("the tier state of %s does not fit its segments (-segments +state):\n%s", tp, diff)
	}
	for object := range uploads {
		if object.Partition != tp {
			continue
		}
		_, reserved := step.reservation(tp, object.UploadID)
		garbage := step.get(uploadKey(keyGarbage, tp, object.UploadID)) != nil
		if reserved == garbage {
			rt.Fatalf("upload %s of %s is forgotten, or in two places", idText(object.UploadID), tp)
		}
	}
}
