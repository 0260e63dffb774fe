package integration

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/objectstore"
)

// fewJournals makes the topics of the coordinators small: each restore makes them anew.
var fewJournals = []string{"offsets.topic.num.partitions=2", "transaction.state.log.num.partitions=2"}

// loseDisks ends the broker at this instant, with everything but the bucket.
func (s *scenario) loseDisks() {
	s.t.Helper()
	if s.node != nil {
		s.powerOff(loseNothing)
		s.bury()
	}
	bucket := s.disks.bucket
	s.disks = newDisks()
	s.disks.bucket = bucket
}

func (s *scenario) tryRestore(options firn.RestoreOptions, bucket objectstore.Bucket) (*firn.RestoreReport, error) {
	ctx, cancel := context.WithTimeout(s.context(), time.Minute)
	defer cancel()
	return firn.Restore(ctx, s.config(), firn.Dependencies{
		Logger: slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		FS:     s.disks.files, PebbleFS: pebbleDisk{s.disks.pebble, &s.disks.locking},
		Network: s.network.Host(s.host), Bucket: bucket,
	}, options)
}

// restore restores the cluster into the disks, and starts the broker on them.
func (s *scenario) restore(options firn.RestoreOptions) *firn.RestoreReport {
	s.t.Helper()
	report := try(s.tryRestore(options, s.disks.bucket)).orFail(s.t)
	s.start()
	return report
}

// clusterID asks the broker.
func (s *scenario) clusterID() kafka.UUID {
	s.t.Helper()
	metadata := try(s.admin().BrokerMetadata(s.context())).orFail(s.t)
	return try(kafka.ParseUUID(metadata.Cluster)).orFail(s.t)
}

// commitAt commits an offset of partition 0 from outside of the group.
func (s *scenario) commitAt(group, topic string, offset int64) {
	s.t.Helper()
	client := s.client()
	defer client.Close()
	s.commitOffset(client, offsetCommit(group, topic, 0, offset, -1))
}

func (s *scenario) committedAt(group, topic string) int64 {
	s.t.Helper()
	offsets := try(s.admin().FetchOffsets(s.context(), group)).orFail(s.t)
	offset, found := offsets.Lookup(topic, 0)
	if !found {
		return -1
	}
	return offset.At
}

// checkpointed waits until a checkpoint has everything.
func (s *scenario) checkpointed() { s.sleep(2*time.Minute + time.Second) }

func TestAClusterComesBackFromItsBucketAlone(t *testing.T) {
	run(t, 80, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(map[string]string{"max.message.bytes": "123456"}))
		s.createTopic("local", 3, map[string]string{"retention.ms": "77777"})
		sent := s.produceTimed("events", 0, 2000)
		s.sink("events")
		s.deleteRecords("events", 300)
		s.commitAt("within", "events", 700)
		s.commitAt("past", "events", 1999)
		s.commitAt("elsewhere", "local", 0)
		must(s.t, s.alterBrokers("log.retention.bytes", "5555555"))
		s.checkpointed()
		end, epoch, before := s.offsetAt("events", latestTiered)+1, s.leaderEpoch("events", 0), s.clusterID()
		s.loseDisks()

		dry := try(s.tryRestore(firn.RestoreOptions{DryRun: true}, s.disks.bucket)).orFail(t)
		if _, err := s.disks.files.Stat(dataDir); err == nil {
			t.Error("a dry run has written something")
		}
		report := s.restore(firn.RestoreOptions{})
		if !dry.DryRun || dry.Cluster != "" || !slices.Equal(dry.Clamps, report.Clamps) || len(dry.Topics) != len(report.Topics) ||
			dry.Topics[0].Partitions[0].End != report.Topics[0].Partitions[0].End {
			t.Errorf("the dry run said %+v, it became %+v", dry, report)
		}
		if report.From != before.Hex() || report.Cluster != s.clusterID().Hex() || report.Cluster == report.From {
			t.Errorf("from %s to %s, the broker is of %s", report.From, report.Cluster, s.clusterID().Hex())
		}
		want := []firn.RestoreClamp{{Group: "past", Topic: "events", Committed: 1999, Restored: end}}
		if !slices.Equal(report.Clamps, want) || len(report.NotCommitted) > 0 {
			t.Errorf("clamps %+v, not committed %v", report.Clamps, report.NotCommitted)
		}
		for timestamp, offset := range map[int64]int64{latest: end, earliest: 300, earliestLocal: end, latestTiered: end - 1} {
			if got := s.offsetAt("events", timestamp); got != offset {
				t.Errorf("special offset %d is %d, want %d", timestamp, got, offset)
			}
		}
		expectSame(t, s.readTo("events", 0, 300, end), sent[300:end])
		if got := s.offsetAt("events", sent[1111].Timestamp.UnixMilli()-500); got != 1111 {
			t.Errorf("by its time, offset 1111 is %d", got)
		}
		if got := s.leaderEpoch("events", 0); got <= epoch {
			t.Errorf("leader epoch %d, it was %d", got, epoch)
		}
		s.expectEpochEnd("events", epoch, end)
		if s.committedAt("within", "events") != 700 || s.committedAt("past", "events") != end || s.committedAt("elsewhere", "local") != 0 {
			t.Errorf("committed are %d, %d and %d", s.committedAt("within", "events"), s.committedAt("past", "events"),
				s.committedAt("elsewhere", "local"))
		}
		s.expectSetting("events", "max.message.bytes", "123456")
		s.expectSetting("local", "retention.ms", "77777")
		s.expectSetting("local", "retention.bytes", "5555555")

		// It goes on, as any topic does.
		more := s.produceTimed("events", int(end), 800)
		s.sink("events")
		s.expectConsumed("within", "events", append(slices.Clone(sent[700:end]), more...))
		s.restart()
		s.verifyLogs()
		expectSame(t, s.read("events", 0, 300), append(slices.Clone(sent[300:end]), more...))
		s.crash(loseSome)
		expectSame(t, s.read("events", 0, 300), append(slices.Clone(sent[300:end]), more...))
	})
}

func (s *scenario) alterBrokers(name, value string) error {
	responses, err := s.admin().AlterBrokerConfigs(s.context(),
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}})
	if err != nil {
		return err
	}
	return responses[0].Err
}

func (s *scenario) expectSetting(topic, name, want string) {
	s.t.Helper()
	for _, resource := range try(s.admin().DescribeTopicConfigs(s.context(), topic)).orFail(s.t) {
		for _, setting := range resource.Configs {
			if setting.Key == name && setting.MaybeValue() != want {
				s.t.Errorf("%s of %s is %s, want %s", name, topic, setting.MaybeValue(), want)
			}
		}
	}
}

// expectConsumed reads as a member of a group, from where that has committed.
func (s *scenario) expectConsumed(group, topic string, want []*kgo.Record) {
	s.t.Helper()
	client := s.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	defer client.Close()
	var got []*kgo.Record
	for len(got) < len(want) {
		fetches := client.PollFetches(s.context())
		must(s.t, fetches.Err())
		got = append(got, fetches.Records()...)
	}
	expectSame(s.t, got, want)
}

// endOf is where a partition ends by a report.
func endOf(t *testing.T, report *firn.RestoreReport, topic string) firn.RestoredPartition {
	t.Helper()
	for _, restored := range report.Topics {
		if restored.Name == topic {
			return restored.Partitions[0]
		}
	}
	t.Fatalf("topic %s is not among %+v", topic, report.Topics)
	return firn.RestoredPartition{}
}

func TestSegmentsThatNoCheckpointKnowsAreFound(t *testing.T) {
	run(t, 81, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		sent := s.produceTimed("events", 0, 500)
		s.sink("events")
		s.commitAt("g", "events", 450)
		s.checkpointed()
		s.bucket.SetRules(objectstore.Rule{
			When: objectstore.And(objectstore.On(objectstore.OpPut), objectstore.KeyContains("/meta/")),
			Then: objectstore.Refuse(),
		})
		sent = append(sent, s.produceTimed("events", 500, 1500)...)
		s.sink("events")
		s.deleteRecords("events", 600)
		sent = append(sent, s.produceTimed("events", 2000, 500)...)
		s.sink("events")
		end := s.offsetAt("events", latestTiered) + 1
		s.loseDisks()
		partition := endOf(t, s.restore(firn.RestoreOptions{}), "events")
		if partition.End != end || partition.CheckpointEnd >= 600 || partition.Found < 10 || partition.Start != 600 {
			t.Errorf("restored is %+v, the end was %d", partition, end)
		}
		expectSame(t, s.readTo("events", 0, 600, end), sent[600:end])
		if got := s.offsetAt("events", earliest); got != 600 {
			t.Errorf("the log starts at %d", got)
		}
	})
}

func TestADeletedTopicStaysAwayAndItsNamesakeComesBack(t *testing.T) {
	run(t, 82, fewJournals, func(s *scenario) {
		for _, topic := range []string{"gone", "again"} {
			s.createTopic(topic, 1, tiered(nil))
			s.produceTimed(topic, 0, 500)
			s.sink(topic)
		}
		s.commitAt("g", "again", 400)
		must(t, s.deleteTopics("gone", "again"))
		s.createTopic("again", 1, tiered(map[string]string{"max.message.bytes": "111111"}))
		sent := s.produceTimed("again", 0, 300)
		s.sink("again") // the new topic is in a checkpoint before its first segment is committed
		end := s.offsetAt("again", latestTiered) + 1
		s.loseDisks()
		report := s.restore(firn.RestoreOptions{})
		for _, topic := range report.Topics {
			if topic.Name == "gone" {
				t.Error("a deleted topic has come back")
			}
		}
		if got := endOf(t, report, "again").End; got != end {
			t.Errorf("it ends at %d, want %d", got, end)
		}
		expectSame(t, s.readTo("again", 0, 0, end), sent[:end])
		s.expectSetting("again", "max.message.bytes", "111111")
		if got := s.committedAt("g", "again"); got != -1 {
			t.Errorf("an offset of the deleted topic is back: %d", got)
		}
	})
}

func (s *scenario) deleteTopics(topics ...string) error {
	responses, err := s.admin().DeleteTopics(s.context(), topics...)
	if err != nil {
		return err
	}
	return responses.Error()
}

func TestSettingsReachACheckpointBeforeTheNextSegment(t *testing.T) {
	run(t, 83, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		s.produceTimed("events", 0, 300)
		s.sink("events")
		s.alterTopic("events", "max.message.bytes=222222")
		s.produceTimed("events", 300, 300)
		s.sink("events") // within seconds, not a minute
		s.loseDisks()
		s.restore(firn.RestoreOptions{})
		s.expectSetting("events", "max.message.bytes", "222222")
	})
}

func TestADamagedCheckpointIsSaidAndPassedOver(t *testing.T) {
	run(t, 84, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		sent := s.produceTimed("events", 0, 500)
		s.sink("events")
		s.checkpointed()
		s.produceTimed("events", 500, 500)
		s.sink("events")
		s.checkpointed()
		end, cluster := s.offsetAt("events", latestTiered)+1, s.clusterID()
		s.loseDisks()
		newest := try(checkpoint.NewestKey(s.context(), s.disks.bucket, cluster)).orFail(t)
		must(t, s.disks.bucket.Put(s.context(), newest, strings.NewReader("damage"), 6, objectstore.PutOptions{}))
		report := s.restore(firn.RestoreOptions{})
		if len(report.Damaged) != 1 || !strings.Contains(report.Damaged[0], newest) {
			t.Errorf("damaged are %v", report.Damaged)
		}
		if partition := endOf(t, report, "events"); partition.End != end || partition.CheckpointEnd >= end {
			t.Errorf("restored is %+v, the end was %d", partition, end)
		}
		expectSame(t, s.readTo("events", 0, 0, 500), sent)
	})
}

// A long history comes back with the parts of its manifest that are sealed: they lie in the bucket already.
func TestALongHistoryComesBackAsItWasSealed(t *testing.T) {
	run(t, 90, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(map[string]string{"internal.segment.bytes": "1500"}))
		sent := s.produceTimed("events", 0, 2600)
		s.sink("events")
		s.eventually("a part of the manifest is sealed", func() bool {
			return slices.ContainsFunc(s.objects(), func(key string) bool { return strings.HasSuffix(key, ".leaf") })
		})
		s.deleteRecords("events", 100) // inside of it
		s.checkpointed()
		sent = append(sent, s.produceTimed("events", 2600, 100)...)
		s.sink("events")
		s.deleteRecords("events", 200)
		sent = append(sent, s.produceTimed("events", 2700, 100)...)
		s.sink("events")
		end := s.offsetAt("events", latestTiered) + 1
		s.loseDisks()
		partition := endOf(t, s.restore(firn.RestoreOptions{}), "events")
		if partition.Start != 200 || partition.End != end || partition.Segments < 128 {
			t.Errorf("restored is %+v, the end was %d", partition, end)
		}
		expectSame(t, s.readTo("events", 0, 200, end), sent[200:end])
		if got := s.offsetAt("events", sent[333].Timestamp.UnixMilli()-500); got != 333 {
			t.Errorf("by its time, offset 333 is %d", got)
		}
		s.deleteRecords("events", end)
		s.restart()
		if got := s.offsetAt("events", earliest); got != end {
			t.Errorf("the log starts at %d, want %d", got, end)
		}
	})
}

func TestProducersGoOnAfterARestore(t *testing.T) {
	run(t, 87, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		client := s.client()
		defer client.Close()
		producer := s.initProducer(client)
		for i := range int32(300) {
			if offset, code := s.sendBatch(client, producer, i); code != kafka.None || offset != int64(i) {
				t.Fatalf("batch %d: offset %d, %v", i, offset, code)
			}
		}
		s.sink("events")
		end := s.offsetAt("events", latestTiered) + 1
		s.loseDisks()
		s.restore(firn.RestoreOptions{})
		after := s.client()
		defer after.Close()
		if offset, code := s.sendBatch(after, producer, int32(end-1)); code != kafka.None || offset != end-1 {
			t.Errorf("the last batch again: offset %d, %v", offset, code)
		}
		if _, code := s.sendBatch(after, producer, int32(end+1)); code != kafka.OutOfOrderSequenceNumber {
			t.Errorf("a batch after one that was lost: %v", code)
		}
		if offset, code := s.sendBatch(after, producer, int32(end)); code != kafka.None || offset != end {
			t.Errorf("the next batch: offset %d, %v", offset, code)
		}
		if next := s.initProducer(after); next.ProducerID < producer.ProducerID+1_000_000 {
			t.Errorf("a new producer gets id %d, the old one had %d", next.ProducerID, producer.ProducerID)
		}
	})
}

func (s *scenario) initProducer(client *kgo.Client) *kmsg.InitProducerIDResponse {
	s.t.Helper()
	request := kmsg.NewPtrInitProducerIDRequest()
	request.ProducerID, request.ProducerEpoch = -1, -1
	response := try(request.RequestWith(s.context(), client)).orFail(s.t)
	must(s.t, kerr.ErrorForCode(response.ErrorCode))
	return response
}

// sendBatch sends one record of 500 bytes with a sequence.
func (s *scenario) sendBatch(client *kgo.Client, producer *kmsg.InitProducerIDResponse, sequence int32) (int64, kafka.Errno) {
	s.t.Helper()
	options := record.PlainProducer()
	options.ProducerID, options.ProducerEpoch, options.BaseSequence = producer.ProducerID, producer.ProducerEpoch, sequence
	builder := record.NewBuilder(options)
	builder.Append(time.Now().UnixMilli(), nil, make([]byte, 500))
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 10_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "events"
	topic.TopicID = try(s.admin().ListTopics(s.context(), "events")).orFail(s.t)["events"].ID
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = builder.Build()
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	response := try(request.RequestWith(s.context(), client)).orFail(s.t)
	answer := response.Topics[0].Partitions[0]
	return answer.BaseOffset, kafka.Errno(answer.ErrorCode)
}

func TestATopicIsAddedToANodeThatIsStopped(t *testing.T) {
	run(t, 88, fewJournals, func(s *scenario) {
		for _, topic := range []string{"wanted", "other"} {
			s.createTopic(topic, 1, tiered(nil))
		}
		sent := s.produceTimed("wanted", 0, 500)
		s.sink("wanted")
		s.commitAt("g", "wanted", 123)
		s.checkpointed()
		end, lost := s.offsetAt("wanted", latestTiered)+1, s.clusterID()
		s.loseDisks()
		s.start() // a new cluster, which shares the store with the old one
		s.createTopic("mine", 1, tiered(nil))
		mine := s.produceTimed("mine", 0, 300)
		s.commitAt("g", "mine", 7)
		s.checkpointed()
		own := s.clusterID()
		s.stop()
		if _, err := s.tryRestore(firn.RestoreOptions{Cluster: lost}, s.disks.bucket); err == nil ||
			!strings.Contains(err.Error(), "holds data") {
			t.Errorf("a whole cluster into a node that has data: %v", err)
		}
		if _, err := s.tryRestore(firn.RestoreOptions{Topics: []string{"wanted"}}, s.disks.bucket); err == nil ||
			!strings.Contains(err.Error(), "--cluster") {
			t.Errorf("two clusters, and nobody says which: %v", err)
		}
		report := s.restore(firn.RestoreOptions{Cluster: lost, Topics: []string{"wanted"}})
		if len(report.Topics) != 1 || s.clusterID() != own {
			t.Errorf("restored are %+v into %s", report.Topics, s.clusterID().Hex())
		}
		expectSame(t, s.readTo("wanted", 0, 0, end), sent[:end])
		expectSame(t, s.read("mine", 0, 0), mine)
		if s.committedAt("g", "wanted") != 123 || s.committedAt("g", "mine") != 7 {
			t.Errorf("committed are %d and %d", s.committedAt("g", "wanted"), s.committedAt("g", "mine"))
		}
		s.stop()
		if _, err := s.tryRestore(firn.RestoreOptions{Cluster: lost, Topics: []string{"wanted"}}, s.disks.bucket); err == nil ||
			!strings.Contains(err.Error(), "exists here already") {
			t.Errorf("the same topic again: %v", err)
		}
		report = s.restore(firn.RestoreOptions{Cluster: lost, Topics: []string{"other"}}) // the claim is ours
		if len(report.Topics) != 1 || report.Topics[0].Name != "other" {
			t.Errorf("restored are %+v", report.Topics)
		}
	})
}

// An interrupted restore leaves directories on which no node starts, and is begun again by the same command.
func TestARestoreThatIsInterruptedIsBegunAgain(t *testing.T) {
	run(t, 89, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		sent := s.produceTimed("events", 0, 200)
		s.sink("events")
		s.commitAt("g", "events", 50)
		s.checkpointed()
		end := s.offsetAt("events", latestTiered) + 1
		s.loseDisks()
		bucket := s.disks.bucket
		for step := 1; ; step++ {
			s.disks = newDisks()
			s.disks.bucket = bucket.Clone()
			faulty := objectstore.NewFaulty(s.disks.bucket, nil)
			faulty.SetRules(objectstore.Rule{
				When: objectstore.Times(step, 1<<30, objectstore.Always()), Then: objectstore.Refuse(),
			})
			_, err := s.tryRestore(firn.RestoreOptions{}, faulty)
			if err == nil {
				if step < 10 {
					t.Errorf("only %d steps", step)
				}
				break
			}
			if _, statErr := s.disks.files.Stat(dataDir + "/metadata/restore-unfinished.json"); statErr == nil {
				if _, err := s.tryStart(); err == nil || !strings.Contains(err.Error(), "was not finished") {
					t.Fatalf("step %d: a node starts on half of a restore: %v", step, err)
				}
			}
			report := s.restore(firn.RestoreOptions{})
			if got := endOf(t, report, "events").End; got != end || s.committedAt("g", "events") != 50 {
				t.Errorf("step %d: the end is %d, committed is %d", step, got, s.committedAt("g", "events"))
			}
			expectSame(t, s.readTo("events", 0, 0, end), sent[:end])
			s.stop()
		}
		s.start()
	})
}
