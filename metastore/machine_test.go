package metastore

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

// TestStateMachine runs the scenarios in testdata: commands in, results and state out.
func TestStateMachine(t *testing.T) {
	datadriven.Walk(t, "testdata/machine", func(t *testing.T, path string) {
		db := openState(t, vfs.NewMem())
		defer closeState(t, db)
		m := newMachine(t, db)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			defer func() { expectLoaded(t, db, m.image) }()
			switch d.Cmd {
			case "image":
				return describe(m.image)
			case "tier":
				return describeTier(t, db)
			case "reload":
				m = newMachine(t, db)
				return ""
			}
			return outcomeText(apply(m, parseCommand(t, d)))
		})
	})
}

func outcomeText(result any, err error) string {
	var out strings.Builder
	switch result := result.(type) {
	case nil:
	case []command.TopicResult:
		for _, topic := range result {
			fmt.Fprintf(&out, "%s: %s\n", topic.Name, refusalText(topic.Err))
		}
	case kafka.UUID:
		fmt.Fprintf(&out, "%s\n", idText(result))
	default:
		fmt.Fprintf(&out, "%+v\n", result)
	}
	if err != nil || result == nil {
		fmt.Fprintf(&out, "%s\n", refusalText(err))
	}
	return out.String()
}

// refusalText prints an error and the code that a client would get for it.
func refusalText(err error) string {
	if err == nil {
		return "ok"
	}
	name, _, _ := strings.Cut(kafka.CodeOf(err).Error(), ":")
	text, _, _ := strings.Cut(err.Error(), ": "+name)
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz") {
		text = strings.ReplaceAll(text, id(string(c)).String(), string(c))
	}
	return name + ": " + text
}

// parseCommand reads a directive such as "commit tp=a:0 epoch=0 version=1 base=0 end=10 upload=x".
func parseCommand(t *testing.T, d *datadriven.TestData) command.Command {
	a := arguments{t: t, d: d}
	switch d.Cmd {
	case "init":
		return command.InitCluster{ClusterID: a.id("id")}
	case "register":
		registered := registration(kafka.BrokerID(a.number("broker")))
		if directories := a.texts("directories"); directories != nil {
			registered.Directories = nil
			for _, name := range directories {
				registered.Directories = append(registered.Directories, id(name))
			}
		}
		return registered
	case "producer-ids":
		return command.AllocateProducerIDs{Broker: 1, Count: int32(a.number("count"))}
	case "create":
		return command.CreateTopics{Topics: a.topics()}
	case "delete":
		return command.DeleteTopic{ID: a.id("id"), ElapsedMs: a.number("elapsed"), Keep: a.d.HasArg("keep")}
	case "partitions":
		return command.CreatePartitions{
			TopicID: a.id("id"), Existing: int32(a.number("existing")),
			Partitions: newTopic("", int(a.number("add"))).Partitions,
		}
	case "alter":
		return a.alter()
	case "bump":
		return command.BumpLeaderEpochs{Broker: kafka.BrokerID(a.number("broker"))}
	case "lapse":
		return command.LapseReservations{ElapsedMs: a.number("elapsed")}
	case "topic-collected":
		return command.TopicCollected{TopicID: a.id("id")}
	case "pin":
		return command.PinSnapshot{Pin: command.Pin{
			ID: a.id("id"), TopicID: a.id("topic"), DeadlineMs: a.number("deadline"),
			Ranges: []command.PartitionRange{{Partition: int32(a.number("partition")), From: a.number("from"), To: a.number("to")}},
		}, ElapsedMs: a.number("elapsed")}
	case "extend-pin":
		return command.ExtendPin{ID: a.id("id"), DeadlineMs: a.number("deadline"), ElapsedMs: a.number("elapsed")}
	case "unpin":
		return command.Unpin{ID: a.id("id")}
	case "checkpoint":
		return command.CheckpointWritten{
			Checkpoint: command.Checkpoint{Index: uint64(a.number("index")), ID: a.id("id")}, ElapsedMs: a.number("elapsed"),
		}
	case "restore":
		return a.restore()
	case "next-producer-id":
		return command.SetNextProducerID{AtLeast: a.number("least")}
	}
	return a.tierCommand()
}

type arguments struct {
	t *testing.T
	d *datadriven.TestData
}

func (a arguments) tierCommand() command.Command {
	tp, epoch := a.partition(), kafka.LeaderEpoch(a.number("epoch"))
	switch a.d.Cmd {
	case "open":
		return command.OpenTier{Partition: tp, LeaderEpoch: epoch, Start: a.number("start")}
	case "reserve":
		cmd := command.ReserveUploads{
			Partition: tp, LeaderEpoch: epoch, ElapsedMs: a.number("elapsed"), DeadlineMs: a.number("deadline"),
		}
		cmd.UploadIDs = a.ids("uploads")
		if a.d.HasArg("from") {
			cmd.Rewrite, cmd.From = true, a.number("from")
		}
		return cmd
	case "commit":
		base, end := a.number("base"), a.number("end")
		return command.CommitSegment{
			Partition: tp, LeaderEpoch: epoch, Version: a.number("version"),
			Entry: command.SegmentEntry{
				BaseOffset: base, EndOffset: end, LeaderEpoch: epoch, UploadID: a.id("upload"),
				DataBytes: (end - base) * 100, ObjectBytes: (end-base)*100 + 10, TailBytes: 10,
			}.WithOrigin(int(a.number("origin"))),
		}
	case "advance":
		return command.AdvanceStart{
			Partition: tp, LeaderEpoch: epoch, Start: a.number("start"), ElapsedMs: a.number("elapsed"), Below: a.below(),
		}
	case "empty":
		return command.EmptyTier{
			Partition: tp, LeaderEpoch: epoch, Start: a.number("start"), ElapsedMs: a.number("elapsed"),
		}
	case "collected":
		return command.Collected{Objects: []command.CollectedObject{
			{Partition: tp, UploadID: a.id("upload"), To: a.number("to")},
		}}
	case "seal":
		return command.Seal{
			Partition: tp, LeaderEpoch: epoch, Version: a.number("version"), Removed: a.ids("removed"),
			Reference: a.items()[0].(command.Reference),
		}
	case "replace":
		cmd := command.ReplaceRange{
			Partition: tp, LeaderEpoch: epoch, Version: a.number("version"), Removed: a.ids("removed"), Added: a.items(),
			Consumed: a.ids("consumed"), Below: a.below(), ElapsedMs: a.number("elapsed"),
		}
		for _, upload := range a.ids("discarded") {
			cmd.Discarded = append(cmd.Discarded, command.Garbage{
				Kind: command.RemovedSegment, UploadID: upload, BaseOffset: 1, EndOffset: 2, ObjectBytes: 3,
			})
		}
		return cmd
	}
	a.d.Fatalf(a.t, "unknown directive %q", a.d.Cmd)
	return nil
}

func (a arguments) text(name string) string {
	if !a.d.HasArg(name) {
		return ""
	}
	var text string
	a.d.ScanArgs(a.t, name, &text)
	return text
}

func (a arguments) texts(name string) []string {
	for _, argument := range a.d.CmdArgs {
		if argument.Key == name {
			return argument.Vals
		}
	}
	return nil
}

func (a arguments) number(name string) int64 {
	var number int64
	if a.d.HasArg(name) {
		a.d.ScanArgs(a.t, name, &number)
	}
	return number
}

func (a arguments) id(name string) kafka.UUID { return id(a.text(name)) }

func (a arguments) ids(name string) (ids []kafka.UUID) {
	for _, text := range a.texts(name) {
		ids = append(ids, id(text))
	}
	return ids
}

// below reads "below=(REFERENCE,SEGMENTS,BYTES)".
func (a arguments) below() (below command.Below) {
	texts := a.texts("below")
	if len(texts) == 0 {
		return below
	}
	below.Reference = id(texts[0])
	if _, err := fmt.Sscan(strings.Join(texts[1:], " "), &below.Segments, &below.Bytes); err != nil {
		a.d.Fatalf(a.t, "below=%v: %v", texts, err)
	}
	return below
}

// items reads one item a line: upload, level, base, end, segments, and perhaps another number of bytes than usual.
func (a arguments) items() (items []command.Item) {
	for line := range strings.Lines(a.d.Input) {
		var upload string
		var level int
		var base, end, segments int64
		if _, err := fmt.Sscan(line, &upload, &level, &base, &end, &segments); err != nil {
			a.d.Fatalf(a.t, "%q: %v", line, err)
		}
		objectBytes := (end-base)*100 + 10*segments
		if fields := strings.Fields(line); len(fields) > 5 {
			_, _ = fmt.Sscan(fields[5], &objectBytes)
		}
		if level == 0 {
			items = append(items, command.SegmentEntry{
				BaseOffset: base, EndOffset: end, UploadID: id(upload),
				DataBytes: (end - base) * 100, ObjectBytes: objectBytes, TailBytes: 10,
			})
			continue
		}
		items = append(items, command.Reference{
			Level: level, BaseOffset: base, EndOffset: end, UploadID: id(upload), Segments: segments,
			DataBytes: (end - base) * 100, ObjectBytes: objectBytes, SealedBytes: 50,
		})
	}
	return items
}

// restore reads a topic with one partition: "restore name=N id=I origins=(..) start= end= segments= bytes=", and items.
func (a arguments) restore() command.Command {
	return command.RestoreTopics{Topics: []command.RestoredTopic{{
		ID: a.id("id"), Name: a.text("name"), Origins: a.ids("origins"), First: int32(a.number("first")),
		Partitions: []command.RestoredPartition{{
			Replicas: []kafka.BrokerID{1}, Directories: []kafka.UUID{id("d1")}, LeaderEpoch: 50, Tiered: true,
			Start: a.number("start"), End: a.number("end"), Version: 7, Bytes: a.number("bytes"),
			Segments: a.number("segments"), Items: a.items(),
		}},
	}}}
}

func (a arguments) partition() kafka.TopicIDPartition {
	topic, number, _ := strings.Cut(a.text("tp"), ":")
	tp := kafka.TopicIDPartition{ID: id(topic)}
	if _, err := fmt.Sscan(number, &tp.Partition); err != nil {
		a.d.Fatalf(a.t, "tp=%s: %v", a.text("tp"), err)
	}
	return tp
}

// topics reads one topic a line: name, id, number of partitions, replicas.
func (a arguments) topics() []command.NewTopic {
	var topics []command.NewTopic
	for line := range strings.Lines(a.d.Input) {
		var name, topicID string
		var partitions int
		if _, err := fmt.Sscan(line, &name, &topicID, &partitions); err != nil {
			a.d.Fatalf(a.t, "%q: %v", line, err)
		}
		topic := newTopic(name, partitions)
		topic.ID = id(strings.Trim(topicID, "-"))
		replicas := strings.Fields(line)[3:]
		for i := range topic.Partitions {
			if len(replicas) > 0 {
				topic.Partitions[i] = command.NewPartition{}
			}
			for _, field := range replicas {
				var broker kafka.BrokerID
				if _, err := fmt.Sscan(field, &broker); err != nil {
					a.d.Fatalf(a.t, "%q: %v", line, err)
				}
				topic.Partitions[i].Replicas = append(topic.Partitions[i].Replicas, broker)
				topic.Partitions[i].Directories = append(topic.Partitions[i].Directories, id("d"))
			}
		}
		topics = append(topics, topic)
	}
	return topics
}

// alter reads "alter topic=NAME", "alter broker=NAME" or "alter group=NAME" with a line for each setting: name value, or name alone.
func (a arguments) alter() command.Command {
	cmd := command.AlterConfigs{Resource: command.ResourceBroker, Name: a.text("broker")}
	if a.d.HasArg("topic") {
		cmd = command.AlterConfigs{Resource: command.ResourceTopic, Name: a.text("topic")}
	}
	if a.d.HasArg("group") {
		cmd = command.AlterConfigs{Resource: command.ResourceGroup, Name: a.text("group")}
	}
	for line := range strings.Lines(a.d.Input) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		op := command.ConfigOp{Name: name}
		if found {
			op.Value = &value
		}
		cmd.Ops = append(cmd.Ops, op)
	}
	return cmd
}

// describeTier prints the tier space.
func describeTier(t *testing.T, db *state.DB) string {
	t.Helper()
	var lines []string
	tpText := func(tp kafka.TopicIDPartition) string { return fmt.Sprintf("%s:%d", idText(tp.ID), tp.Partition) }
	err := db.Space(state.SpaceTier).Scan(nil, func(key, value []byte) error {
		line, err := "", error(nil)
		switch key[0] {
		case keyTier:
			var tier *image.TierState
			tier, err = parseTier(value)
			line = fmt.Sprintf("state %s %+v", tpText(parsePartition(key)), *tier)
		case keyHead:
			var item command.Item
			if item, err = command.ParseItem(value); err == nil {
				line = itemText(tpText(parsePartition(key)), item)
			}
		case keyReservation:
			var reserved reservation
			tp, upload := parseUpload(key)
			reserved, err = parseReservation(value)
			line = fmt.Sprintf("reserved %s %s epoch %d at remote end %d until %d", tpText(tp), idText(upload),
				reserved.leaderEpoch, reserved.lowest, reserved.deadlineMs)
			if reserved.rewrite {
				line += " for a rewrite"
			}
		case keyDeadline:
			deadline, tp, upload := parseDeadline(key)
			line = fmt.Sprintf("deadline %d of %s %s", deadline, tpText(tp), idText(upload))
		case keyGarbage:
			var garbage command.Garbage
			garbage, err = parseGarbage(key, value)
			line = garbageText(tpText(garbage.Partition), garbage)
		case keyDeletedTopic:
			var topic command.DeletedTopic
			topic, err = parseDeletedTopic(kafka.UUID(key[1:]), value)
			line = fmt.Sprintf("deleted topic %s %s of %d partitions, since %d",
				idText(topic.ID), topic.Name, topic.Partitions, topic.ElapsedMs)
			if topic.Kept {
				line += ", its objects kept"
			}
		case keyPin:
			var pin command.Pin
			pin, err = parsePin(value)
			line = fmt.Sprintf("pin %s of topic %s %v until %d", idText(pin.ID), idText(pin.TopicID), pin.Ranges, pin.DeadlineMs)
		case keyCheckpoint:
			checkpoint := parseCheckpoint(key)
			line = fmt.Sprintf("checkpoint %s of index %d", idText(checkpoint.ID), checkpoint.Index)
		default:
			err = fmt.Errorf("unknown key %x", key)
		}
		lines = append(lines, line)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n") + "\n"
}

func itemText(tp string, item command.Item) string {
	s := item.Summary()
	if s.Level == 0 {
		return fmt.Sprintf("segment %s [%d, %d) epoch %d upload %s", tp, s.BaseOffset, s.EndOffset, s.LeaderEpoch,
			idText(s.UploadID))
	}
	return fmt.Sprintf("reference %s [%d, %d) level %d epoch %d upload %s: %d segments, %d bytes", tp, s.BaseOffset,
		s.EndOffset, s.Level, s.LeaderEpoch, idText(s.UploadID), s.Segments, s.ObjectBytes)
}

func garbageText(tp string, garbage command.Garbage) string {
	kind := map[command.GarbageKind]string{
		command.RemovedSegment: "removed segment", command.LapsedUpload: "lapsed upload",
		command.ExpiredTree: "part of a tree", command.ReplacedManifest: "replaced manifest",
		command.LapsedRewrite: "lapsed rewrite",
	}[garbage.Kind]
	if garbage.Whole {
		kind = "tree"
	}
	return fmt.Sprintf("garbage %s %s: %s [%d, %d) epoch %d, %d bytes, since %d", tp, idText(garbage.UploadID), kind,
		garbage.BaseOffset, garbage.EndOffset, garbage.LeaderEpoch, garbage.ObjectBytes, garbage.ElapsedMs)
}
