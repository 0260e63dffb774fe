package integration

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// at sends one record with a time of its own.
func (s *scenario) at(topic string, when time.Time) error {
	s.t.Helper()
	client := s.client()
	defer client.Close()
	return client.ProduceSync(s.context(), &kgo.Record{Topic: topic, Value: []byte("x"), Timestamp: when}).FirstErr()
}

func TestPD14BackDatedRecordsAreAgedByTheirOwnTime(t *testing.T) {
	run(t, 14, nil, func(s *scenario) {
		hour := strconv.Itoa(int(time.Hour.Milliseconds()))
		s.createTopic("free", 1, map[string]string{"retention.ms": hour})
		s.createTopic("bounded", 1, map[string]string{"retention.ms": hour, "message.timestamp.before.max.ms": hour})
		old := time.Now().Add(-3 * time.Hour)
		if err := s.at("bounded", old); !errors.Is(err, kerr.InvalidTimestamp) {
			t.Errorf("where it is bounded: %v", err)
		}
		must(t, s.at("free", old))
		s.eventually("what is three hours old has expired", func() bool { return s.offsetAt("free", earliest) == 1 })
		must(t, s.at("free", time.Now()))
		s.sleep(50 * time.Minute)
		if start := s.offsetAt("free", earliest); start != 1 {
			t.Errorf("a record of an hour less is gone: the log starts at %d", start)
		}
	})
}

func TestRE01RE02TimesInTheFutureDoNotKeepRecords(t *testing.T) {
	run(t, 15, nil, func(s *scenario) {
		never := strconv.Itoa(math.MaxInt64)
		settings := map[string]string{"retention.ms": "10000", "segment.ms": "10000"}
		s.createTopic("bounded", 1, settings)
		free, stamped := map[string]string{"message.timestamp.after.max.ms": never},
			map[string]string{"message.timestamp.type": "LogAppendTime"}
		for key, value := range settings {
			free[key], stamped[key] = value, value
		}
		s.createTopic("free", 1, free)
		s.createTopic("stamped", 1, stamped)
		s.createTopic("by-size", 1, map[string]string{
			"message.timestamp.after.max.ms": never, "retention.ms": "-1", "retention.bytes": "1000", "internal.segment.bytes": "500",
		})
		future := time.Now().AddDate(10, 0, 0)
		if err := s.at("bounded", future); !errors.Is(err, kerr.InvalidTimestamp) {
			t.Errorf("beyond the bound: %v", err)
		}
		must(t, s.at("free", future))
		must(t, s.at("stamped", future))
		for range 30 {
			must(t, s.at("by-size", future))
		}
		s.eventually("ten seconds of the broker's clock are over for all", func() bool {
			return s.offsetAt("free", earliest) == 1 && s.offsetAt("stamped", earliest) == 1
		})
		s.eventually("what is too much is gone", func() bool { return s.offsetAt("by-size", earliest) > 10 })
	})
}

// TestME10MetadataIsWholeWheneverItIsAnswered polls through restarts and crashes of the broker.
func TestME10MetadataIsWholeWheneverItIsAnswered(t *testing.T) {
	run(t, 10, nil, func(s *scenario) {
		s.createTopic("events", 3, nil)
		ctx, stop := context.WithCancel(s.t.Context())
		done, answers := make(chan struct{}), 0
		client := s.client(kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))
		go func() {
			defer close(done)
			req := kmsg.NewPtrMetadataRequest()
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = kmsg.StringPtr("events")
			req.Topics = append(req.Topics, topic)
			for ctx.Err() == nil {
				if resp, err := req.RequestWith(ctx, client); err == nil {
					answers++
					if topic := resp.Topics[0]; topic.ErrorCode != 0 || len(topic.Partitions) != 3 {
						t.Errorf("answer %d: %+v", answers, topic)
					}
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
		for i := range 6 {
			s.sleep(2 * time.Second)
			if i%2 == 0 {
				s.restart()
			} else {
				s.crash(loseAnything)
			}
		}
		s.sleep(2 * time.Second)
		stop()
		<-done
		if answers < 100 {
			t.Errorf("only %d answers", answers)
		}
	})
}
