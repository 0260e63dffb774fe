package storage

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
)

// savedLog is what the state database has of one log, except for the contents of the producer checkpoints.
type savedLog struct {
	checkpoint checkpoint
	segments   map[int64]segmentState // by base offset
	producers  []savedProducers       // by offset
	epochs     []EpochEntry           // nil if the last clean stop left none
	cleaned    int64
	rewrites   map[int64]rewriteNote // by base offset
	err        error                 // the first thing that could not be understood
}

// savedProducers says where a producer checkpoint is.
type savedProducers struct {
	offset int64
	epoch  kafka.LeaderEpoch
	broken bool
	value  []byte // nil if it has to be looked up
}

// smallCheckpoint is the largest producer checkpoint that is kept until its log is opened.
const smallCheckpoint = 1 << 10

// logKeySize is the size of the prefix that all keys of a log share.
const logKeySize = len(kafka.TopicID{}) + 4

// loadSavedLogs reads what the state database has of all logs. One walk is many times cheaper than a few look-ups for
// each of ten thousand logs.
func loadSavedLogs(store Store) (map[[logKeySize]byte]*savedLog, error) {
	logs := map[[logKeySize]byte]*savedLog{}
	err := store.Scan(nil, func(key, value []byte) error {
		if len(key) <= logKeySize {
			return fmt.Errorf("a key of %d bytes in the state database belongs to no log", len(key))
		}
		log := logs[[logKeySize]byte(key)]
		if log == nil {
			log = &savedLog{segments: map[int64]segmentState{}}
			logs[[logKeySize]byte(key)] = log
		}
		log.add(key, value)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read where the logs stand: %w", err)
	}
	return logs, nil
}

// add takes in one key of the log.
func (s *savedLog) add(key, value []byte) {
	var err error
	switch key[logKeySize] {
	case checkpointKind:
		s.checkpoint, err = parseCheckpoint(value)
	case segmentKind:
		s.segments[offsetOfKey(key)], err = parseSegmentState(value)
	case epochsKind:
		s.epochs, err = parseSavedEpochs(value)
	case cleanedKind:
		s.cleaned, err = parseCleaned(value)
	case rewriteKind:
		if s.rewrites == nil {
			s.rewrites = map[int64]rewriteNote{}
		}
		s.rewrites[offsetOfKey(key)], err = parseRewriteNote(value)
	case producerKind:
		if n := len(s.producers); n > 0 {
			s.producers[n-1].value = nil // the newest is the one that is going to be used
		}
		found := producersOf(key, value)
		if len(value) <= smallCheckpoint {
			found.value = bytes.Clone(value)
		}
		s.producers = append(s.producers, found)
	}
	s.err = cmp.Or(s.err, err)
}

func producersOf(key, value []byte) savedProducers {
	epoch, err := producerCheckpointEpoch(value)
	return savedProducers{offset: offsetOfKey(key), epoch: epoch, broken: err != nil}
}
