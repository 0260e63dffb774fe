package bench

import (
	"encoding/binary"
	"encoding/hex"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/internal/latency"
)

// A tracked value begins with the run and the number of its record, in place of what was there, in JSON as events are:
// {"run":"0123456789abcdef","n":"0123456789abcdef",
const (
	stampRun    = `{"run":"`
	stampNumber = `","n":"`
	stampEnd    = `",`
	hexDigits   = 16
	runAt       = len(stampRun)
	numberAt    = runAt + hexDigits + len(stampNumber)
	// StampBytes is the smallest value that can be tracked.
	StampBytes = numberAt + hexDigits + len(stampEnd)
)

func appendHex(dst []byte, n uint64) []byte {
	return hex.AppendEncode(dst, binary.BigEndian.AppendUint64(nil, n))
}

func appendStamp(dst []byte, run uint64, number int64) []byte {
	dst = appendHex(append(dst, stampRun...), run)
	dst = appendHex(append(dst, stampNumber...), uint64(number))
	return append(dst, stampEnd...)
}

// parseStamp reads the number of a record of a run; a topic may also hold others.
func parseStamp(value []byte, run uint64) (number int64, ok bool) {
	if len(value) < StampBytes {
		return 0, false
	}
	var raw [16]byte
	if _, err := hex.Decode(raw[:8], value[runAt:runAt+hexDigits]); err != nil {
		return 0, false
	}
	if _, err := hex.Decode(raw[8:], value[numberAt:numberAt+hexDigits]); err != nil {
		return 0, false
	}
	number = int64(binary.BigEndian.Uint64(raw[8:]))
	return number, binary.BigEndian.Uint64(raw[:8]) == run && number >= 0
}

// ledger knows of each record of a phase whether it was acknowledged and whether it was received.
type ledger struct {
	run      uint64
	schedule latency.Schedule
	total    int64
	arrived  chan struct{} // told, without waiting, that some of them have arrived

	mu         sync.Mutex // guards the fields below
	known      numbers    // acknowledged
	received   numbers
	missing    int64 // acknowledged and not received
	count      int64 // received
	bytes      int64
	duplicates int64
	last       time.Time // when something was received
	latency    *latency.Histogram
}

func newLedger(run uint64, p phase) *ledger {
	return &ledger{run: run, schedule: p.schedule, total: p.total, arrived: make(chan struct{}, 1),
		latency: latency.NewHistogram()}
}

// stamp implements tracker.
func (l *ledger) stamp(value []byte, number int64) { appendStamp(value[:0], l.run, number) }

// acknowledged implements tracker.
func (l *ledger) acknowledged(number int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known.add(number) && !l.received.has(number) {
		l.missing++
	}
}

var _ tracker = (*ledger)(nil)

// take notes what has been received at a time.
func (l *ledger) take(fetches kgo.Fetches, now time.Time) {
	ours := false
	l.mu.Lock()
	fetches.EachRecord(func(record *kgo.Record) {
		number, ok := parseStamp(record.Value, l.run)
		if !ok || number >= l.total {
			return
		}
		ours, l.last = true, now
		if !l.received.add(number) {
			l.duplicates++
			return
		}
		l.count++
		l.bytes += int64(len(record.Key) + len(record.Value))
		l.latency.Record(now.Sub(l.schedule.At(number)))
		if l.known.has(number) {
			l.missing--
		}
	})
	l.mu.Unlock()
	if !ours {
		return
	}
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// complete tells whether all that was acknowledged has been received.
func (l *ledger) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missing == 0
}

// numbers is a set of small numbers from 0 on.
type numbers []uint64

// add tells whether the number is new.
func (n *numbers) add(number int64) bool {
	word, bit := number/64, uint64(1)<<(number%64)
	for int64(len(*n)) <= word {
		*n = append(*n, 0)
	}
	isNew := (*n)[word]&bit == 0
	(*n)[word] |= bit
	return isNew
}

func (n *numbers) has(number int64) bool {
	word := number / 64
	return word < int64(len(*n)) && (*n)[word]&(1<<(number%64)) != 0
}
