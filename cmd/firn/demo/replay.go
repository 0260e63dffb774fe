package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The day that is looked up by its timestamps, and how many of its flights are shown.
const (
	day        = "2013-01-13"
	shownCount = 3
)

// drawnEvery is how many events a bar moves at a time: drawing must not be what takes the time.
const drawnEvery = 256

// replay reads the topic from offset 0 to an end and compares every record with what was produced.
func (s *show) replay(ctx context.Context, node Node, end int64) error {
	shown := s.display.begin()
	progress := shown.bar("read back", int(end))
	began := time.Now()
	err := readRange(ctx, node, 0, end, func(index int64, record *kgo.Record) error {
		if diff := difference(index, s.events[index], record); diff != "" {
			return fmt.Errorf("what was read is not what was produced: %s", diff)
		}
		if (index+1)%drawnEvery == 0 || index+1 == end {
			progress.set(index + 1)
		}
		return nil
	})
	shown.end()
	if err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	if seconds > s.summary.ReplaySeconds {
		s.summary.ReplaySeconds, s.summary.ReplayRate = seconds, float64(end)/seconds
	}
	s.display.say("Read %d events back from offset 0 in %.2f s, %d of them from the bucket: byte for byte the same.",
		end, seconds, s.summary.RemoteEnd)
	return nil
}

// readRange consumes the offsets [start, end) of the topic and gives each record to visit.
func readRange(ctx context.Context, node Node, start, end int64, visit func(int64, *kgo.Record) error) error {
	client, err := connect(node, kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(start)}}))
	if err != nil {
		return err
	}
	defer client.Close()
	for next := start; next < end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("consume from offset %d: %w", next, err)
		}
		for record := range fetches.RecordsAll() {
			if next == end {
				break
			}
			if err := visit(next, record); err != nil {
				return err
			}
			next++
		}
	}
	return nil
}

// lookUpDay finds one day by its timestamps and reads it.
func (s *show) lookUpDay(ctx context.Context, node Node) error {
	first, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return err
	}
	s.summary.Day = day
	for _, border := range []struct {
		moment time.Time
		offset *int64
	}{{first, &s.summary.DayStart}, {first.AddDate(0, 0, 1), &s.summary.DayEnd}} {
		if *border.offset, err = s.lookUp(ctx, node, border.moment); err != nil {
			return err
		}
	}
	s.display.say("Looked up %s by timestamp: offsets %d–%d, %d flights, such as", day, s.summary.DayStart,
		s.summary.DayEnd-1, s.summary.DayEnd-s.summary.DayStart)
	return readRange(ctx, node, s.summary.DayStart, s.summary.DayEnd, func(offset int64, record *kgo.Record) error {
		if diff := difference(offset, s.events[offset], record); diff != "" {
			return fmt.Errorf("what was read is not what was produced: %s", diff)
		}
		if offset < s.summary.DayStart+shownCount {
			return s.tellFlight(record)
		}
		return nil
	})
}

// lookUp asks for the first offset at or after a moment and checks the answer.
func (s *show) lookUp(ctx context.Context, node Node, moment time.Time) (int64, error) {
	client, err := connect(node)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListOffsetsAfterMilli(ctx, moment.UnixMilli(), topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("look up %v: %w", moment, err)
	}
	got, want := listed[topic][0].Offset, firstAt(s.events, moment.UnixMilli())
	if got != want {
		return 0, fmt.Errorf("the first event at or after %v is at offset %d, but the broker says %d", moment, want, got)
	}
	return got, nil
}

func (s *show) tellFlight(record *kgo.Record) error {
	var f flight
	if err := json.Unmarshal(record.Value, &f); err != nil {
		return fmt.Errorf("offset %d: %w", record.Offset, err)
	}
	delay := "did not leave"
	if f.DepartureDelay != nil {
		delay = fmt.Sprintf("left %+.0f min", *f.DepartureDelay)
	}
	s.display.say("  %6d  %s  %-2s %-4d  %s → %s  %s", record.Offset, f.Time.Format("15:04"), f.Carrier, f.Number,
		f.From, f.To, delay)
	return nil
}
