package compaction

import (
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
)

var errCrash = errors.New("the power goes")

// memLog is a log in memory, of which any step may be the last.
type memLog struct {
	segments  []memSegment // the last is active
	cleaned   int64
	stable    int64
	producers map[int64]storage.LastRecord
	settings  Settings
	steps     int // until the crash; negative is never
	replaced  int // segments of the largest replacement
}

type memSegment struct {
	Segment
	batches [][]byte
	aborted []storage.AbortedTransaction
}

func (l *memLog) step() error {
	if l.steps == 0 {
		return errCrash
	}
	l.steps--
	return nil
}

func (l *memLog) View() (View, error) {
	view := View{LastStable: l.stable, CleanedUntil: l.cleaned, Settings: l.settings}
	for _, s := range l.segments {
		view.Segments = append(view.Segments, s.Segment)
	}
	return view, l.step()
}

func (l *memLog) index(base int64) int {
	return slices.IndexFunc(l.segments, func(s memSegment) bool { return s.BaseOffset == base })
}

func (l *memLog) Open(base int64) (Source, error) {
	at := l.index(base)
	if at < 0 || at == len(l.segments)-1 {
		return nil, errors.New("no such sealed segment")
	}
	return &memSource{log: l, batches: l.segments[at].batches}, l.step()
}

func (l *memLog) Replace(firstBase, endBase int64) (Sink, error) {
	from, to := l.index(firstBase), l.index(endBase)
	if from < 0 || to <= from {
		return nil, errors.New("no such segments")
	}
	into := memSegment{Segment: l.segments[from].Segment}
	into.EndOffset, into.Size = endBase, 0
	return &memSink{log: l, from: from, to: to, into: into}, l.step()
}

func (l *memLog) SetCleaned(offset int64) error {
	if err := l.step(); err != nil {
		return err
	}
	l.cleaned = offset
	return l.step()
}

func (l *memLog) AbortedTransactions(start, end int64) (found []storage.AbortedTransaction, err error) {
	for _, s := range l.segments {
		for _, a := range s.aborted {
			if a.FirstOffset < end && a.LastOffset >= start {
				found = append(found, a)
			}
		}
	}
	slices.SortFunc(found, func(a, b storage.AbortedTransaction) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return found, l.step()
}

func (l *memLog) LastRecordsOfProducers() map[int64]storage.LastRecord { return l.producers }

type memSource struct {
	log     *memLog
	batches [][]byte
	buffer  []byte // overwritten by the next batch, as a real one is
}

func (s *memSource) Next() (record.Batch, error) {
	if len(s.batches) == 0 {
		return nil, io.EOF
	}
	clear(s.buffer)
	s.buffer = append(s.buffer[:0], s.batches[0]...)
	s.batches = s.batches[1:]
	return record.Batch(s.buffer), s.log.step()
}

func (s *memSource) Close() {}

type memSink struct {
	log      *memLog
	from, to int
	into     memSegment
}

func (s *memSink) Append(batches []byte) error {
	for len(batches) > 0 {
		batch, rest, err := record.Next(batches)
		if err != nil {
			return err
		}
		s.into.batches = append(s.into.batches, slices.Clone(batch))
		s.into.Size += int64(len(batch))
		batches = rest
	}
	return s.log.step()
}

func (s *memSink) KeepAborted(aborted storage.AbortedTransaction) {
	s.into.aborted = append(s.into.aborted, aborted)
}

func (s *memSink) Commit() error {
	if err := s.log.step(); err != nil {
		return err
	}
	s.log.replaced = max(s.log.replaced, s.to-s.from)
	s.log.segments = slices.Replace(s.log.segments, s.from, s.to, s.into)
	return s.log.step()
}

func (s *memSink) Abort() {}
