package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/vfs"
)

func TestACleanStopChangesNothing(t *testing.T) {
	run(t, 1, nil, func(s *scenario) {
		s.createTopic("events", 2, nil)
		first, second := numbered("events", 0, 0, 1000, 100), numbered("events", 1, 0, 10, 100)
		s.produce(s.client(), first...)
		s.produce(s.client(), second...)
		epoch := s.leaderEpoch("events", 0)
		for range 2 {
			s.restart()
			expectSame(t, s.read("events", 0, 0), first)
			expectSame(t, s.read("events", 1, 0), second)
		}
		if now := s.leaderEpoch("events", 0); now != epoch {
			t.Errorf("leader epoch %d after a clean stop, want %d as before", now, epoch)
		}
		s.stop()
		s.verifyLogs()
	})
}

func TestAnUncleanStopBeginsOneNewLeaderEpoch(t *testing.T) {
	for what := range loss(numberOfLossKinds) {
		t.Run(what.String(), func(t *testing.T) {
			run(t, 2, nil, func(s *scenario) {
				s.createTopic("events", 2, nil)
				sent := numbered("events", 0, 0, 1000, 100)
				s.produce(s.client(), sent...)
				before := s.leaderEpoch("events", 0)
				s.crash(what)
				for partition := range int32(2) {
					if now := s.leaderEpoch("events", partition); now != before+1 {
						t.Errorf("partition %d has leader epoch %d, want %d", partition, now, before+1)
					}
				}
				expectSame(t, s.read("events", 0, 0), sent)
				s.restart()
				if now := s.leaderEpoch("events", 0); now != before+1 {
					t.Errorf("leader epoch %d after a clean stop, want %d", now, before+1)
				}
			})
		})
	}
}

// TestWhatWasAcknowledgedOrReadOutlivesPowerCuts cuts the power again and again, each time at some operation on the
// disk of the logs, under a producer and a consumer that live on.
func TestWhatWasAcknowledgedOrReadOutlivesPowerCuts(t *testing.T) {
	const rounds = 8
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run(t, seed, nil, func(s *scenario) {
				var known ledger
				countdown := s.cutAtFileOperation()
				s.createTopic("events", 1, map[string]string{
					"internal.segment.bytes": "5000", "index.interval.bytes": "300",
				})
				stopFollowing := s.follow("events", 0, &known)
				producer := s.stream(&known, kgo.ProducerBatchMaxBytes(4000)) // a batch fits into a segment
				for round := range rounds {
					countdown.Store(1 + s.random.Int64N(60))
					for i := range 25 {
						producer.send(numbered("events", 0, 1000*round+10*i, 1+s.random.IntN(10), s.random.IntN(300))...)
						time.Sleep(time.Duration(s.random.IntN(5)) * time.Millisecond)
					}
					s.crash(loseAnything) // here, if it did not come to it before
				}
				countdown.Store(0)
				producer.wait()
				records := s.read("events", 0, 0)
				known.check(t, 0, records)
				expectOnceInOrder(t, records, producer.sent)
				stopFollowing()
				s.stop()
				s.verifyLogs()
			})
		})
	}
}

// cutAtFileOperation cuts the power at the operation on a disk that counts the returned number down to 0. Operations on
// the logs and on the metadata count alike, if they change something.
func (s *scenario) cutAtFileOperation() *atomic.Int64 {
	var countdown atomic.Int64
	count := func() {
		if countdown.Load() > 0 && countdown.Add(-1) == 0 {
			s.powerOff(loseAnything)
		}
	}
	s.onFile = func(op vfs.Op) {
		if op.Kind.Changes() {
			count()
		}
	}
	s.onPebble = func(op errorfs.Op) {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			count()
		}
	}
	s.restart()
	return &countdown
}

func TestPD10ARetryAfterACrashIsStoredOnce(t *testing.T) {
	for what := range loss(numberOfLossKinds) {
		t.Run(what.String(), func(t *testing.T) {
			run(t, 3, nil, func(s *scenario) {
				s.createTopic("events", 1, nil)
				s.produce(s.client(), numbered("events", 0, 0, 7, 100)...)
				init := try(kmsg.NewPtrInitProducerIDRequest().RequestWith(s.context(), s.client())).orFail(t)
				must(t, kerr.ErrorForCode(init.ErrorCode))
				batch := func(sequence int32) []byte {
					builder := record.NewBuilder(record.BuilderOptions{
						LeaderEpoch: -1, ProducerID: init.ProducerID, ProducerEpoch: init.ProducerEpoch, BaseSequence: sequence,
					})
					for i := range int32(10) {
						builder.Append(time.Now().UnixMilli(), nil, fmt.Appendf(nil, "sequence %d", sequence+i))
					}
					return builder.Build()
				}
				for sequence := int32(0); sequence < 70; sequence += 10 {
					if base, err := s.produceBatch("events", batch(sequence)); err != nil || base != int64(7+sequence) {
						t.Fatal(base, err)
					}
				}
				s.crash(what)
				for _, sequence := range []int32{60, 20} { // the newest, and the oldest that is remembered
					if base, err := s.produceBatch("events", batch(sequence)); err != nil || base != int64(7+sequence) {
						t.Errorf("the retry of sequence %d was answered with offset %d and %v", sequence, base, err)
					}
				}
				if _, err := s.produceBatch("events", batch(80)); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
					t.Errorf("a gap in the sequence was answered with %v", err)
				}
				if base, err := s.produceBatch("events", batch(70)); err != nil || base != 77 {
					t.Error("the next batch was answered with", base, err)
				}
				records := s.read("events", 0, 0)
				for i, record := range records[7:] {
					if want := fmt.Sprint("sequence ", i); string(record.Value) != want {
						t.Fatalf("offset %d is %q, want %q", record.Offset, record.Value, want)
					}
				}
				if len(records) != 87 {
					t.Errorf("%d records, want 87", len(records))
				}
			})
		})
	}
}

// produceBatch sends one record batch as it is to partition 0 of a topic, with acks=all.
func (s *scenario) produceBatch(topic string, batch []byte) (baseOffset int64, err error) {
	s.t.Helper()
	client := s.client()
	defer client.Close()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	metadata := try(s.admin().ListTopics(s.context(), topic)).orFail(s.t)
	reqTopic := kmsg.NewProduceRequestTopic()
	reqTopic.Topic, reqTopic.TopicID = topic, metadata[topic].ID
	reqPartition := kmsg.NewProduceRequestTopicPartition()
	reqPartition.Records = batch
	reqTopic.Partitions = append(reqTopic.Partitions, reqPartition)
	req.Topics = append(req.Topics, reqTopic)
	res := try(req.RequestWith(s.context(), client)).orFail(s.t)
	answer := res.Topics[0].Partitions[0]
	return answer.BaseOffset, kerr.ErrorForCode(answer.ErrorCode)
}

func TestASecondNodeOnTheSameDataIsRefused(t *testing.T) {
	run(t, 4, nil, func(s *scenario) {
		s.createTopic("events", 1, nil)
		second := s.twin("other")
		if _, err := second.tryStart(); !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "data") {
			t.Errorf("the second node was answered with %v", err)
		}
		sent := numbered("events", 0, 0, 10, 10)
		s.produce(s.client(), sent...)
		s.crash(loseNothing) // a lock goes with its holder
		expectSame(t, s.read("events", 0, 0), sent)
	})
}

func TestCR01IndexesThatAreGoneOrDamagedAreRebuilt(t *testing.T) {
	damages := map[string]func(files *vfs.Mem, name string) error{
		"removed": func(files *vfs.Mem, name string) error { return files.Remove(name) },
		"cut": func(files *vfs.Mem, name string) error {
			return rewrite(files, name, func(b []byte) []byte { return b[:len(b)/2] })
		},
		"zeroed": func(files *vfs.Mem, name string) error {
			return rewrite(files, name, func(b []byte) []byte { return make([]byte, len(b)) })
		},
		"extended with zeros": func(files *vfs.Mem, name string) error {
			return rewrite(files, name, func(b []byte) []byte { return append(b, make([]byte, 4096)...) })
		},
		"noise": func(files *vfs.Mem, name string) error {
			random := rand.New(rand.NewPCG(5, 5))
			return rewrite(files, name, func(b []byte) []byte {
				for i := range b {
					b[i] = byte(random.Uint32())
				}
				return b
			})
		},
	}
	for how, damage := range damages {
		t.Run(how, func(t *testing.T) {
			run(t, 5, nil, func(s *scenario) {
				s.createTopic("events", 1, map[string]string{
					"internal.segment.bytes": "20000", "index.interval.bytes": "100", "retention.ms": "-1",
				})
				sent := numbered("events", 0, 0, 500, 100)
				for i := range sent {
					sent[i].Timestamp = time.UnixMilli(1_000_000 + int64(i))
				}
				for some := range chunks(sent, 5) {
					s.produce(s.client(), some...)
				}
				s.stop()
				folder := path.Join(dataDir, "log", "events-0")
				damaged := 0
				for _, name := range try(s.disks.files.List(folder)).orFail(t) {
					if ext := path.Ext(name); ext == ".index" || ext == ".timeindex" {
						must(t, damage(s.disks.files, path.Join(folder, name)))
						damaged++
					}
				}
				if damaged < 6 {
					t.Fatalf("only %d indexes", damaged)
				}
				s.start()
				expectSame(t, s.read("events", 0, 0), sent)
				for _, offset := range []int64{0, 1, 250, 499} {
					expectSame(t, s.read("events", 0, offset)[:1], sent[offset:offset+1])
					found := try(s.admin().ListOffsetsAfterMilli(s.context(), 1_000_000+offset, "events")).orFail(t)
					if got, _ := found.Lookup("events", 0); got.Offset != offset {
						t.Errorf("time %d is at offset %d, want %d", 1_000_000+offset, got.Offset, offset)
					}
				}
				s.stop()
				s.verifyLogs()
			})
		})
	}
}

func rewrite(files *vfs.Mem, name string, change func([]byte) []byte) error {
	data, err := vfs.ReadFile(files, name)
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(files, name, change(data))
}

func chunks(records []*kgo.Record, size int) func(yield func([]*kgo.Record) bool) {
	return func(yield func([]*kgo.Record) bool) {
		for len(records) > 0 {
			n := min(size, len(records))
			if !yield(records[:n]) {
				return
			}
			records = records[n:]
		}
	}
}

// TestCR04DamageBelowTheFlushedOffset flips a byte of what was flushed long ago: the log says so and is not shortened,
// and the others serve.
func TestCR04DamageBelowTheFlushedOffset(t *testing.T) {
	run(t, 6, nil, func(s *scenario) {
		s.createTopic("events", 2, nil)
		sent := numbered("events", 1, 0, 100, 100)
		for i := range 100 {
			s.produce(s.client(), numbered("events", 0, i, 1, 100)...)
		}
		s.produce(s.client(), sent...)
		s.sleep(5 * time.Second) // the flushed offset goes to the state database
		s.powerOff(loseNothing)
		s.bury()
		name := path.Join(dataDir, "log", "events-0", "00000000000000000000.log")
		before := try(vfs.ReadFile(s.disks.files, name)).orFail(t)
		must(t, rewrite(s.disks.files, name, func(b []byte) []byte {
			b[len(b)/2] ^= 0x10
			return b
		}))
		s.start()
		expectSame(t, s.read("events", 1, 0), sent)
		err := s.client(kgo.RecordRetries(1)).ProduceSync(s.context(), numbered("events", 0, 0, 1, 1)...).FirstErr()
		if !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("producing to the damaged log was answered with %v", err)
		}
		s.stop()
		after := try(vfs.ReadFile(s.disks.files, name)).orFail(t)
		if len(after) != len(before) {
			t.Errorf("the damaged log has %d bytes, of %d", len(after), len(before))
		}
	})
}

func TestCR08AFullDiskRefusesWritesAndNothingElse(t *testing.T) {
	run(t, 7, []string{"firn.log.dirs.reserve.bytes=1000000"}, func(s *scenario) {
		s.createTopic("events", 1, nil)
		sent := numbered("events", 0, 0, 100, 1000)
		s.produce(s.client(), sent...)
		s.disks.files.SetFreeBytes(1_500_000)
		producer := s.client(kgo.RecordRetries(2), kgo.ProducerBatchCompression(kgo.NoCompression()))
		var refused error
		for round := 0; refused == nil && round < 1000; round++ {
			batch := numbered("events", 0, 100+10*round, 10, 1000)
			if refused = producer.ProduceSync(s.context(), batch...).FirstErr(); refused == nil {
				sent = append(sent, batch...)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if !errors.Is(refused, kerr.KafkaStorageError) {
			t.Fatalf("a full disk was answered with %v", refused)
		}
		expectSame(t, s.read("events", 0, 0), sent)
		s.createTopic("more", 1, nil)
		s.disks.files.SetFreeBytes(1 << 30)
		s.sleep(5 * time.Second)
		more := numbered("events", 0, 50_000, 10, 1000)
		s.produce(s.client(), more...)
		expectSame(t, s.read("events", 0, 0), append(sent, more...))
		select {
		case <-s.node.Failed():
			t.Error("the node has failed")
		default:
		}
	})
}

// TestAStopWithConsumersWaitingIsPrompt stops a broker at which ten consumers wait for records for a long time.
func TestAStopWithConsumersWaitingIsPrompt(t *testing.T) {
	run(t, 8, nil, func(s *scenario) {
		s.createTopic("events", 1, nil)
		for range 10 {
			s.client(kgo.FetchMaxWait(5*time.Minute),
				kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"events": {0: kgo.NewOffset().At(0)}}))
		}
		s.sleep(10 * time.Second)
		began := time.Now()
		s.stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %v", took)
		}
	})
}
