package storage

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// VerifyReport says what was checked and what is wrong.
type VerifyReport struct {
	Files    int             `json:"files"`
	Batches  int64           `json:"batches"`
	Records  int64           `json:"records"`
	Bytes    int64           `json:"bytes"` // of batches
	Problems []VerifyProblem `json:"problems"`
}

// VerifyProblem is one thing that is wrong, and where.
type VerifyProblem struct {
	File     string `json:"file"`
	Position int64  `json:"position"`
	Message  string `json:"message"`
}

// String prints the problem in one line.
func (p VerifyProblem) String() string {
	return fmt.Sprintf("%s at %d: %s", p.File, p.Position, p.Message)
}

// maxProblems bounds the report of a file that is no log at all.
const maxProblems = 1000

// Verify checks a file of a log, the folder of a partition, or a log directory with many: checksums and records of
// every batch, the order of offsets and leader epochs, whether segments join, and whether each index entry points to
// the batch it names. What is wrong is in the report; the error is for what could not be looked at.
func Verify(fsys vfs.FS, name string) (VerifyReport, error) {
	v := &verifier{fs: fsys}
	info, err := fsys.Stat(name)
	if err != nil {
		return v.report, err
	}
	if !info.IsDir() {
		v.nextOffset = anyOffset
		err = v.verifyFile(name)
	} else {
		err = v.verifyTree(name)
	}
	return v.report, err
}

// anyOffset is the end of a segment that nobody has seen.
const anyOffset = -1

type verifier struct {
	fs     vfs.FS
	report VerifyReport
	// Of the log that is being looked at:
	nextOffset int64 // where its last segment ended
	epoch      kafka.LeaderEpoch
}

func (v *verifier) problem(file string, position int64, format string, args ...any) {
	if len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems,
			VerifyProblem{File: file, Position: position, Message: fmt.Sprintf(format, args...)})
	}
}

// verifyTree looks at a partition's folder, or at the folders of partitions in a log directory.
func (v *verifier) verifyTree(dir string) error {
	names, err := v.fs.List(dir)
	if err != nil {
		return err
	}
	found := false
	v.nextOffset, v.epoch = anyOffset, kafka.NoLeaderEpoch
	for _, name := range names { // segments sort by their base offsets
		if dumperOf(name) != nil {
			found = true
			if err := v.verifyFile(path.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		if _, ok := parseFolderName(name); found || !ok {
			continue
		}
		if err := v.verifyTree(path.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) verifyFile(name string) error {
	v.report.Files++
	var err error
	switch path.Ext(name) {
	case logSuffix:
		err = v.verifyBatches(name)
	case offsetIndexSuffix:
		err = v.verifyOffsetIndex(name)
	case timeIndexSuffix:
		err = v.verifyTimeIndex(name)
	default:
		err = dumpFile(v.fs, name, DumpOptions{}, func(fmt.Stringer) error { return nil })
	}
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		v.problem(name, corrupt.Position, "%v", corrupt.Err)
		return nil
	}
	return err
}

func (v *verifier) verifyBatches(name string) error {
	baseOffset, err := baseOffsetOf(name, logSuffix)
	if err != nil {
		return err
	}
	if v.nextOffset != anyOffset && baseOffset < v.nextOffset {
		v.problem(name, 0, "the segment before it ends at offset %d", v.nextOffset)
	}
	v.nextOffset = baseOffset
	return eachBatch(v.fs, name, func(position int64, batch record.Batch) error {
		v.verifyBatch(name, position, batch)
		return nil
	})
}

func (v *verifier) verifyBatch(name string, position int64, batch record.Batch) {
	v.report.Batches++
	v.report.Bytes += int64(len(batch))
	if batch.BaseOffset() < v.nextOffset {
		v.problem(name, position, "offset %d after %d", batch.BaseOffset(), v.nextOffset)
	}
	if batch.LeaderEpoch() < v.epoch {
		v.problem(name, position, "leader epoch %d after %d", batch.LeaderEpoch(), v.epoch)
	}
	v.nextOffset, v.epoch = batch.NextOffset(), max(v.epoch, batch.LeaderEpoch())
	if err := batch.VerifyCRC(); err != nil {
		v.problem(name, position, "%v", err)
		return // its records say nothing then
	}
	largest := record.NoTimestamp
	err := eachRecord(name, position, batch, func(item DumpedRecord) error {
		v.report.Records++
		largest = max(largest, item.Timestamp)
		return nil
	})
	var corrupt *CorruptError
	switch {
	case errors.As(err, &corrupt):
		v.problem(name, position, "%v", corrupt.Err)
	case largest != batch.MaxTimestamp() && batch.Count() > 0 && !batch.IsControl():
		v.problem(name, position, "its largest timestamp is %d and its header says %d", largest, batch.MaxTimestamp())
	}
}

// verifyOffsetIndex looks at the batch that each entry points to.
func (v *verifier) verifyOffsetIndex(name string) error {
	data, batches, err := v.indexAndBatches(name, offsetIndexSuffix)
	if err != nil || batches == nil {
		return err
	}
	last := offsetEntry{relative: -1}
	for i := range len(data) / offsetEntrySize {
		entry, at := offsetEntryAt(data, i), int64(i*offsetEntrySize)
		if entry.relative <= last.relative || entry.position <= last.position {
			v.problem(name, at, "the entry is not above the one before it")
			return nil
		}
		last = entry
		n, found := slices.BinarySearchFunc(batches.places, int64(entry.position),
			func(place batchPlace, position int64) int { return cmp.Compare(place.position, position) })
		if !found {
			v.problem(name, at, "no batch begins at position %d", entry.position)
		} else if got := batches.places[n].nextOffset - 1; got != batches.base+int64(entry.relative) {
			v.problem(name, at, "the batch at %d ends at offset %d instead of %d",
				entry.position, got, batches.base+int64(entry.relative))
		}
	}
	return checkWholeEntries(name, len(data), offsetEntrySize)
}

// verifyTimeIndex looks at the batch that each entry names.
func (v *verifier) verifyTimeIndex(name string) error {
	data, batches, err := v.indexAndBatches(name, timeIndexSuffix)
	if err != nil || batches == nil {
		return err
	}
	last := timeEntry{timestamp: record.NoTimestamp, relative: -1}
	for i := range len(data) / timeEntrySize {
		entry, at := timeEntryAt(data, i), int64(i*timeEntrySize)
		if entry.timestamp <= last.timestamp || entry.relative <= last.relative {
			v.problem(name, at, "the entry is not above the one before it")
			return nil
		}
		last = entry
		offset := batches.base + int64(entry.relative)
		n, found := slices.BinarySearchFunc(batches.places, offset+1,
			func(place batchPlace, nextOffset int64) int { return cmp.Compare(place.nextOffset, nextOffset) })
		if !found {
			v.problem(name, at, "no batch ends at offset %d", offset)
		} else if got := batches.places[n].maxTimestamp; got != entry.timestamp {
			v.problem(name, at, "the batch that ends at offset %d has the largest timestamp %d instead of %d",
				offset, got, entry.timestamp)
		}
	}
	return checkWholeEntries(name, len(data), timeEntrySize)
}

// batchList is where the batches of a segment are.
type batchList struct {
	base   int64
	places []batchPlace
}

// indexAndBatches reads an index, and the headers of the batches beside it. No batches mean that the log file is not
// there, which is a problem.
func (v *verifier) indexAndBatches(name, suffix string) ([]byte, *batchList, error) {
	baseOffset, err := baseOffsetOf(name, suffix)
	if err != nil {
		return nil, nil, err
	}
	data, err := vfs.ReadFile(v.fs, name)
	if err != nil {
		return nil, nil, err
	}
	log := segmentPath(path.Dir(name), baseOffset, logSuffix)
	if _, err := v.fs.Stat(log); err != nil {
		v.problem(name, 0, "its log file %s: %v", log, err)
		return nil, nil, nil
	}
	list := &batchList{base: baseOffset}
	err = eachBatch(v.fs, log, func(position int64, batch record.Batch) error {
		list.places = append(list.places, placeOf(batch, position))
		return nil
	})
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		err = nil // reported with the log file; the batches before it are there
	}
	return data, list, err
}
