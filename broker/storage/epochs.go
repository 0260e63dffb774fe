package storage

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/firnlog/firn/internal/kafka"
)

// EpochEntry says that the records from StartOffset on, up to the next entry's, were written under an epoch (KIP-101).
type EpochEntry struct {
	Epoch       kafka.LeaderEpoch
	StartOffset int64
}

// EpochEndOffset is the answer to where an epoch ended: the largest epoch at or below the one asked for, and the
// offset at which the next one begins. −1 and −1 mean that the epoch is not known.
type EpochEndOffset struct {
	Epoch     kafka.LeaderEpoch
	EndOffset int64
}

// leaderEpochs is the lineage of a log from its log start offset on, remote part included; ascending in both fields.
// It is changed copy-on-write, so a slice that was handed out stays what it was.
type leaderEpochs struct {
	entries []EpochEntry
	// assigned is an epoch whose first record is still to come: it is part of the lineage but not of the file.
	assigned bool
}

// How far the epoch file lags behind, besides an offset.
const (
	epochsCurrent  int64 = math.MaxInt64
	epochsAllStale int64 = -1
)

func (e *leaderEpochs) latest() kafka.LeaderEpoch {
	if len(e.entries) == 0 {
		return kafka.NoLeaderEpoch
	}
	return e.entries[len(e.entries)-1].Epoch
}

// assign begins an epoch at an offset and tells whether the lineage has changed. Entries that begin there or later are
// replaced: nothing was written under them.
func (e *leaderEpochs) assign(epoch kafka.LeaderEpoch, startOffset int64) bool {
	if epoch <= e.latest() {
		return false
	}
	kept := sort.Search(len(e.entries), func(i int) bool { return e.entries[i].StartOffset >= startOffset })
	e.entries = append(slices.Clone(e.entries[:kept]), EpochEntry{Epoch: epoch, StartOffset: startOffset})
	return true
}

// correct sets right what the epoch file says by an epoch that was found in the batches. It comes in ascending order.
func (e *leaderEpochs) correct(found EpochEntry) bool {
	if e.at(found.StartOffset) == found.Epoch {
		return false
	}
	kept := sort.Search(len(e.entries), func(i int) bool {
		return e.entries[i].StartOffset >= found.StartOffset || e.entries[i].Epoch >= found.Epoch
	})
	e.entries = append(slices.Clone(e.entries[:kept]), found)
	return true
}

// at is the epoch that the record at an offset was written under.
func (e *leaderEpochs) at(offset int64) kafka.LeaderEpoch {
	n := sort.Search(len(e.entries), func(i int) bool { return e.entries[i].StartOffset > offset })
	if n == 0 {
		return kafka.NoLeaderEpoch
	}
	return e.entries[n-1].Epoch
}

// endOffsetFor answers OffsetForLeaderEpoch by the rules of KIP-101 and KIP-279.
func (e *leaderEpochs) endOffsetFor(epoch kafka.LeaderEpoch, endOffset int64) EpochEndOffset {
	unknown := EpochEndOffset{Epoch: kafka.NoLeaderEpoch, EndOffset: -1}
	if epoch == kafka.NoLeaderEpoch || len(e.entries) == 0 {
		return unknown
	}
	if epoch == e.latest() {
		return EpochEndOffset{Epoch: epoch, EndOffset: endOffset}
	}
	higher := sort.Search(len(e.entries), func(i int) bool { return e.entries[i].Epoch > epoch })
	switch {
	case higher == len(e.entries): // from the future: not ours to know
		return unknown
	case higher == 0: // older than all we have: it ended before our first record
		return EpochEndOffset{Epoch: epoch, EndOffset: e.entries[0].StartOffset}
	}
	return EpochEndOffset{Epoch: e.entries[higher-1].Epoch, EndOffset: e.entries[higher].StartOffset}
}

// cutEnd removes what begins at or after the end offset of a log that was cut.
func (e *leaderEpochs) cutEnd(endOffset int64) bool {
	kept := sort.Search(len(e.entries), func(i int) bool { return e.entries[i].StartOffset >= endOffset })
	if kept == len(e.entries) {
		return false
	}
	e.entries, e.assigned = slices.Clone(e.entries[:kept]), false
	return true
}

// cutStart removes what ended at or before a new log start offset; the epoch of that offset begins there now.
func (e *leaderEpochs) cutStart(startOffset int64) bool {
	n := sort.Search(len(e.entries), func(i int) bool { return e.entries[i].StartOffset > startOffset })
	if n == 0 || n == 1 && e.entries[0].StartOffset == startOffset {
		return false
	}
	kept := slices.Clone(e.entries[n-1:])
	kept[0].StartOffset = startOffset
	e.entries = kept
	return true
}

// written are the entries that belong into the file.
func (e *leaderEpochs) written() []EpochEntry {
	if e.assigned {
		return e.entries[:len(e.entries)-1]
	}
	return e.entries
}

// The epoch file is Kafka's checkpoint format: a version line "0", the number of entries, and a line for each with
// epoch and start offset.
const epochFileVersion = 0

func appendEpochFile(dst []byte, entries []EpochEntry) []byte {
	dst = fmt.Appendf(dst, "%d\n%d\n", epochFileVersion, len(entries))
	for _, entry := range entries {
		dst = fmt.Appendf(dst, "%d %d\n", entry.Epoch, entry.StartOffset)
	}
	return dst
}

func parseEpochFile(data []byte) ([]EpochEntry, error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	version, err := epochFileNumber(lines, "version")
	if err != nil {
		return nil, err
	}
	if version != epochFileVersion {
		return nil, fmt.Errorf("version %d of a leader epoch file is not known", version)
	}
	count, err := epochFileNumber(lines, "number of entries")
	if err != nil {
		return nil, err
	}
	var entries []EpochEntry
	for lines.Scan() {
		entry, err := parseEpochLine(lines.Text())
		if err != nil {
			return nil, err
		}
		if n := len(entries); n > 0 && (entry.Epoch <= entries[n-1].Epoch || entry.StartOffset < entries[n-1].StartOffset) {
			return nil, fmt.Errorf("leader epoch %d at %d is not above the one before it", entry.Epoch, entry.StartOffset)
		}
		entries = append(entries, entry)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if int64(len(entries)) != count {
		return nil, fmt.Errorf("a leader epoch file announces %d entries and has %d", count, len(entries))
	}
	return entries, nil
}

func epochFileNumber(lines *bufio.Scanner, what string) (int64, error) {
	if !lines.Scan() {
		return 0, fmt.Errorf("a leader epoch file has no %s", what)
	}
	n, err := strconv.ParseInt(lines.Text(), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("a leader epoch file's %s: %w", what, err)
	}
	return n, nil
}

func parseEpochLine(line string) (EpochEntry, error) {
	epochText, offsetText, found := strings.Cut(line, " ")
	if !found {
		return EpochEntry{}, fmt.Errorf("%q is no leader epoch entry", line)
	}
	epoch, err := strconv.ParseInt(epochText, 10, 32)
	if err != nil {
		return EpochEntry{}, fmt.Errorf("leader epoch entry: %w", err)
	}
	offset, err := strconv.ParseInt(offsetText, 10, 64)
	if err != nil {
		return EpochEntry{}, fmt.Errorf("leader epoch entry: %w", err)
	}
	if epoch < 0 || offset < 0 {
		return EpochEntry{}, fmt.Errorf("leader epoch entry %q is negative", line)
	}
	return EpochEntry{Epoch: kafka.LeaderEpoch(epoch), StartOffset: offset}, nil
}
