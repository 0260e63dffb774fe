package tiering_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// TestScenarios runs scripts: what is done to a broker, and what then is where. Each script has a bubble of its own, in
// which time only passes by "sleep" (and by the second that "seal" waits).
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, testdata("scenarios"), func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{settings: usual(), sequences: map[int64]int32{}}
			datadriven.RunTest(t, path, s.run)
			if s.broker != nil {
				s.broker.close()
			}
		})
	})
}

// script is a broker in the hands of a script.
type script struct {
	settings setup
	broker   *broker
	want     []byte // everything that was produced
	next     int64  // the next batch's first timestamp, unless the script says
	// sequences are the next ones of producers.
	sequences map[int64]int32
}

// verbs are the words of the language.
var verbs = map[string]func(*script, *datadriven.TestData) string{
	"start":     (*script).start,
	"produce":   (*script).produce,
	"write":     (*script).write,
	"end":       (*script).end,
	"seal":      (*script).seal,
	"sleep":     (*script).sleep,
	"clean":     (*script).clean,
	"drop":      (*script).drop,
	"advance":   (*script).advance,
	"alter":     (*script).alter,
	"delete":    (*script).delete,
	"new-epoch": (*script).newEpoch,
	"restart":   (*script).restart,
	"crash":     (*script).crash,
	"faults":    (*script).faults,
	"put":       (*script).put,
	"put-late":  (*script).putLate,
	"remove":    (*script).remove,
	"bucket":    (*script).bucket,
	"tier":      (*script).tier,
	"log":       (*script).log,
	"garbage":   (*script).garbage,
	"failures":  (*script).failures,
	"fetch":     (*script).fetch,
	"records":   (*script).records,
	"progress":  (*script).progress,
	"verify":    (*script).verify,
	"read-all":  (*script).readAll,
	"timestamp": (*script).timestamp,
	"max-time":  (*script).maxTime,
	"requests":  (*script).requests,
}

func (s *script) run(t *testing.T, td *datadriven.TestData) string {
	verb, known := verbs[td.Cmd]
	if !known {
		t.Fatalf("%s: %q is no verb", td.Pos, td.Cmd)
	}
	if s.broker == nil && td.Cmd != "start" {
		s.broker = start(t, newDisks(t), s.settings)
	}
	if s.broker != nil {
		s.broker.t = t
	}
	return verb(s, td)
}

// number reads an argument that is a number.
func number(td *datadriven.TestData, name string, otherwise int64) int64 {
	for _, arg := range td.CmdArgs {
		if arg.Key == name {
			n, err := strconv.ParseInt(arg.Vals[0], 10, 64)
			if err != nil {
				panic(err)
			}
			return n
		}
	}
	return otherwise
}

func word(td *datadriven.TestData, name, otherwise string) string {
	for _, arg := range td.CmdArgs {
		if arg.Key == name {
			return arg.Vals[0]
		}
	}
	return otherwise
}

func duration(td *datadriven.TestData, name string, otherwise time.Duration) time.Duration {
	text := word(td, name, "")
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// start grace=15m reservation=5m deadline=1m policy=group|os shape=HEAD/LEAF/NODE, and a topic setting per line.
func (s *script) start(td *datadriven.TestData) string {
	s.settings.config.Grace = duration(td, "grace", s.settings.config.Grace)
	s.settings.config.Reservation = duration(td, "reservation", s.settings.config.Reservation)
	s.settings.config.UploadDeadline = duration(td, "deadline", s.settings.config.UploadDeadline)
	if word(td, "policy", "group") == "os" {
		s.settings.policy = storage.FlushOS
	}
	if shape := word(td, "shape", ""); shape != "" {
		into := &s.settings.config.Shape
		_, err := fmt.Sscanf(shape, "%d/%d/%d", &into.Head, &into.Leaf, &into.Node)
		if err != nil {
			panic(err)
		}
	}
	if td.Input != "" {
		s.settings.topic = lines(td.Input)
	}
	return ""
}

func lines(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = value
	}
	return values
}

// produce records=3 batches=1 time=T codec=zstd: batches of records, their timestamps one apart.
func (s *script) produce(td *datadriven.TestData) string {
	codec, err := record.ParseCodec(word(td, "codec", "none"))
	must(s.broker.t, err)
	s.next = number(td, "time", s.next)
	records := number(td, "records", 3)
	for range number(td, "batches", 1) {
		before := s.broker.log().EndOffset()
		s.broker.produce(int(records), s.next, func(o *record.BuilderOptions) { o.Codec = codec })
		s.next += records
		s.remember(before)
	}
	s.broker.sleep(20 * time.Millisecond) // until it is flushed
	return fmt.Sprintf("end %d", s.broker.log().EndOffset())
}

// remember keeps what was appended from an offset on.
func (s *script) remember(offset int64) {
	log := s.broker.log()
	found, err := log.Read(storage.ReadRequest{
		Offset: offset, MaxBytes: 1 << 20, AtLeastOne: true, UpTo: log.EndOffset(),
	})
	must(s.broker.t, err)
	data := make([]byte, found.Size)
	_, err = found.Region.ReadAt(data, 0)
	must(s.broker.t, err)
	found.Region.Release()
	s.want = append(s.want, data...)
}

func (s *script) seal(*datadriven.TestData) string {
	s.broker.seal()
	return ""
}

func (s *script) sleep(td *datadriven.TestData) string {
	s.broker.sleep(duration(td, "for", time.Second))
	return ""
}

// drop removes local segments that end at or below an offset, or at the remote end.
func (s *script) drop(td *datadriven.TestData) string {
	removed, err := s.broker.log().MoveLocalStart(number(td, "below", s.broker.tierState().End), "script")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d local segments removed", removed)
}

// advance moves the log start offset, as DeleteRecords does.
func (s *script) advance(td *datadriven.TestData) string {
	to := number(td, "to", -1)
	if partition, _ := s.broker.meta.Image().PartitionByID(eventsID); partition.Tier != nil {
		if err := s.broker.tier.AdvanceStart(context.Background(), eventsID, to); err != nil {
			return codeOf(err)
		}
	}
	must(s.broker.t, s.broker.log().MoveLogStart(to))
	s.broker.settle()
	return ""
}

// alter changes topic settings, one per line.
func (s *script) alter(td *datadriven.TestData) string {
	var ops []command.ConfigOp
	for name, value := range lines(td.Input) {
		ops = append(ops, command.ConfigOp{Name: name, Value: &value})
	}
	s.broker.propose(command.AlterConfigs{Resource: command.ResourceTopic, Name: events.Topic, Ops: ops})
	s.broker.sleep(time.Second)
	return ""
}

// delete keep: the topic, without its objects.
func (s *script) delete(td *datadriven.TestData) string {
	s.broker.propose(command.DeleteTopic{
		ID: testTopic, ElapsedMs: s.broker.meta.ElapsedMs(), Keep: td != nil && td.HasArg("keep"),
	})
	s.broker.settle()
	return ""
}

func (s *script) newEpoch(*datadriven.TestData) string {
	s.broker.propose(bump)
	s.broker.settle()
	return ""
}

func (s *script) restart(*datadriven.TestData) string {
	s.broker.close()
	s.broker = start(s.broker.t, s.broker.disks, s.settings)
	return ""
}

func (s *script) crash(td *datadriven.TestData) string {
	s.broker = s.broker.crash(uint64(number(td, "seed", 1)))
	return ""
}

// faults has calls to the bucket fail: a line "OPERATION FIRST-LAST FAULT" each.
func (s *script) faults(td *datadriven.TestData) string {
	var rules []objectstore.Rule
	for line := range strings.Lines(td.Input) {
		var operation, fault string
		var first, last int
		_, err := fmt.Sscanf(strings.TrimSpace(line), "%s %d-%d %s", &operation, &first, &last, &fault)
		must(s.broker.t, err)
		rules = append(rules, objectstore.Rule{
			When: objectstore.Times(first, last, objectstore.On(objectstore.Operation(operation))),
			Then: map[string]objectstore.Fault{
				"refused": objectstore.Refuse(), "answer-lost": objectstore.LoseAnswer(), "stalled": objectstore.Stall(),
			}[fault],
		})
	}
	s.broker.bucket.SetRules(rules...)
	return ""
}

// putLate stores the object that was collected last once more: its put has landed late.
func (s *script) putLate(*datadriven.TestData) string {
	s.broker.mu.Lock()
	key := s.broker.gone[len(s.broker.gone)-1]
	s.broker.mu.Unlock()
	must(s.broker.t, s.broker.disks.bucket.Put(context.Background(), key, strings.NewReader("x"), 1,
		objectstore.PutOptions{}))
	return ""
}

// put stores something under a name in the partition's folder: a stranger.
func (s *script) put(td *datadriven.TestData) string {
	must(s.broker.t, s.broker.disks.bucket.Put(context.Background(),
		segment.Prefix(testCluster, eventsID)+word(td, "name", ""), strings.NewReader("x"), 1, objectstore.PutOptions{}))
	return ""
}

// remove deletes an object behind everybody's back.
func (s *script) remove(td *datadriven.TestData) string {
	key := s.broker.keys()[number(td, "object", 0)]
	must(s.broker.t, s.broker.disks.bucket.Delete(context.Background(), key))
	return ""
}

// bucket lists the objects, without what is random in their keys.
func (s *script) bucket(*datadriven.TestData) string {
	var out []string
	for _, name := range s.broker.keys() {
		info, err := s.broker.disks.bucket.Stat(context.Background(), name)
		must(s.broker.t, err)
		line := fmt.Sprintf("%s %d bytes", name[strings.LastIndex(name, "/")+1:], info.Size)
		if key, err := segment.ParseKey(name); err == nil {
			line = fmt.Sprintf("[%d, %d) epoch %d, %d bytes", key.BaseOffset, key.EndOffset, key.LeaderEpoch, info.Size)
			if key.Kind != segment.KindSegment {
				line += ", " + levels[key.Kind-segment.KindSegment]
			}
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return orNothing(strings.Join(out, "\n"))
}

// uploadID matches what is random in messages.
var uploadID = regexp.MustCompile(`[0-9a-f]{32}\.seg|upload id [\w-]{22}`)

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

// tier prints the manifest.
func (s *script) tier(*datadriven.TestData) string {
	state := s.broker.tierState()
	var out strings.Builder
	fmt.Fprintf(&out, "[%d, %d), %d segments, %d bytes\n", state.Start, state.End, state.Segments, state.Bytes)
	for _, item := range s.broker.tree().Items() {
		s := item.Summary()
		fmt.Fprintf(&out, "[%d, %d) epoch %d, %d bytes of data, times %d to %d (at %d)", s.BaseOffset,
			s.EndOffset, s.LeaderEpoch, s.DataBytes, s.MinTimestamp, s.MaxTimestamp, s.MaxTimestampOffset)
		if s.Level > 0 {
			fmt.Fprintf(&out, ", %s of %d segments", levels[s.Level], s.Segments)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// levels are the names of an item's levels.
var levels = [...]string{"segment", "leaf", "node"}

func (s *script) log(*datadriven.TestData) string {
	log := s.broker.log()
	var out strings.Builder
	fmt.Fprintf(&out, "start %d, local start %d, high watermark %d, end %d\n",
		log.LogStartOffset(), log.LocalLogStartOffset(), log.HighWatermark(), log.EndOffset())
	for _, segment := range log.Segments() {
		fmt.Fprintf(&out, "[%d, %d)", segment.BaseOffset, segment.EndOffset)
		if segment.Sealed {
			out.WriteString(" sealed")
		}
		if segment.Damaged {
			out.WriteString(" damaged")
		}
		out.WriteString("\n")
	}
	return out.String()
}

// garbage prints what waits to be deleted.
func (s *script) garbage(*datadriven.TestData) string {
	all, err := s.broker.meta.Garbage()
	must(s.broker.t, err)
	var out []string
	for _, piece := range all {
		if piece.Kind == command.LapsedUpload {
			out = append(out, fmt.Sprintf("an upload from %d on", piece.BaseOffset))
		} else {
			out = append(out, fmt.Sprintf("segment [%d, %d)", piece.BaseOffset, piece.EndOffset))
		}
	}
	topics, err := s.broker.meta.DeletedTopics()
	must(s.broker.t, err)
	for _, topic := range topics {
		out = append(out, "topic "+topic.Name)
	}
	slices.Sort(out)
	return orNothing(strings.Join(out, "\n"))
}

// failures prints what the tier has reported since the last time, each kind once.
func (s *script) failures(*datadriven.TestData) string {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	var out []string
	for _, failure := range s.broker.fails {
		failure = uploadID.ReplaceAllString(failure, "UPLOAD")
		if !slices.Contains(out, failure) {
			out = append(out, failure)
		}
	}
	s.broker.fails = nil
	slices.Sort(out)
	return orNothing(strings.Join(out, "\n"))
}

// fetch offset=O max=N up-to=U, local if it can be, and prints the batches.
func (s *script) fetch(td *datadriven.TestData) string {
	req := storage.RemoteReadRequest{
		Offset: number(td, "offset", 0), MaxBytes: int(number(td, "max", 1<<20)),
		AtLeastOne: number(td, "at-least-one", 1) == 1,
		UpTo:       number(td, "up-to", s.broker.log().HighWatermark()),
	}
	result, remote, err := s.broker.fetch(context.Background(), req)
	if err != nil {
		return codeOf(err)
	}
	defer result.Release()
	var out strings.Builder
	fmt.Fprintf(&out, "%s, from %d to %d:", map[bool]string{true: "remote", false: "local"}[remote],
		result.FirstOffset, result.NextOffset)
	for data := result.Data; len(data) > 0; {
		batch, rest, err := record.Next(data)
		must(s.broker.t, err)
		must(s.broker.t, batch.VerifyCRC())
		fmt.Fprintf(&out, " [%d, %d)", batch.BaseOffset(), batch.NextOffset())
		data = rest
	}
	return out.String()
}

func codeOf(err error) string {
	text, _, _ := strings.Cut(kafka.CodeOf(err).Error(), ":")
	return text
}

// readAll compares everything from the log start on with what was produced.
func (s *script) readAll(*datadriven.TestData) string {
	start := s.broker.log().LogStartOffset()
	got, want := s.broker.readAll(start), s.want
	for len(want) > 0 {
		batch, rest, err := record.Next(want)
		must(s.broker.t, err)
		if batch.NextOffset() > start {
			break
		}
		want = rest
	}
	if !bytes.Equal(got, want) {
		return fmt.Sprintf("%d bytes that are not the %d produced", len(got), len(want))
	}
	return "the same from " + strconv.FormatInt(start, 10) + " on"
}

// timestamp looks a time up in the remote part and in the local one.
func (s *script) timestamp(td *datadriven.TestData) string {
	at := number(td, "at", 0)
	remote, ok, err := s.broker.tier.OffsetForTimestamp(context.Background(), eventsID, at)
	return "remote: " + lookedUp(remote, ok, err) + "\nlocal: " + lookedUp(
		s.broker.log().OffsetForTimestamp(at, s.broker.log().HighWatermark()))
}

func (s *script) maxTime(*datadriven.TestData) string {
	remote, ok, err := s.broker.tier.MaxTimestamp(context.Background(), eventsID)
	return "remote: " + lookedUp(remote, ok, err) + "\nlocal: " + lookedUp(
		s.broker.log().MaxTimestamp(s.broker.log().HighWatermark()))
}

func lookedUp(found storage.TimestampOffset, ok bool, err error) string {
	switch {
	case err != nil:
		return codeOf(err)
	case !ok:
		return "none"
	}
	return fmt.Sprintf("offset %d, time %d, epoch %d", found.Offset, found.Timestamp, found.Epoch)
}

// requests counts the requests to the bucket since the last time.
func (s *script) requests(*datadriven.TestData) string {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	counts := map[string]int{}
	for _, call := range s.broker.calls {
		counts[call]++
	}
	s.broker.calls = nil
	var out []string
	for call, count := range counts {
		out = append(out, fmt.Sprintf("%d %s", count, call))
	}
	slices.Sort(out)
	return orNothing(strings.Join(out, ", "))
}
