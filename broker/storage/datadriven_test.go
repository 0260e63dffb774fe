package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// scenario is one testdata file: a log, the disk under it, and what happens to both, line by line.
type scenario struct {
	t       *testing.T
	mem     *vfs.Mem
	store   *memoryStore
	config  Config
	remote  *RemoteRange
	reserve int64
	manager *Manager
	log     *Log
	guard   VerificationGuard
	events  []string
}

const scenarioFolder = "data/log/events-0"

func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, file string) {
		s := &scenario{t: t, mem: vfs.NewMem(), store: newMemoryStore()}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			out, err := s.run(d)
			for _, event := range s.events {
				out += event + "\n"
			}
			s.events = nil
			if err != nil {
				out += describeError(err) + "\n"
			}
			if out == "" {
				return "ok\n"
			}
			return out
		})
		if s.manager != nil {
			_ = s.manager.Close() // the scenario has shown what it wanted to
		}
	})
}

// describeError prints the code for clients and the reason, without the sentence that belongs to the code.
func describeError(err error) string {
	code := kafka.CodeOf(err)
	text := strings.ReplaceAll(err.Error(), ": "+code.Error(), "")
	name, _, _ := strings.Cut(code.Error(), ":")
	if code == kafka.UnknownServerError {
		name = "error"
	}
	return name + ": " + strings.TrimSuffix(text, code.Error())
}

func (s *scenario) run(d *datadriven.TestData) (string, error) {
	commands := map[string]func(d *datadriven.TestData) (string, error){
		"open": s.open, "close": s.close, "kill": s.kill, "power-cut": s.powerCut,
		"append": s.append, "roll": s.roll, "flush": s.flush, "checkpoint": s.checkpoint, "truncate": s.truncate,
		"restart-at": s.restartAt, "high-watermark": s.highWatermark, "log-start": s.logStart,
		"local-start": s.localStart, "epoch": s.epoch, "end-of-epoch": s.endOfEpoch,
		"offsets": s.offsets, "segments": s.segments, "epochs": s.epochs, "read": s.read, "read-all": s.readAll,
		"time": s.time, "max-time": s.maxTime, "producers": s.producers, "reserve": s.setReserve,
		"ls": s.ls, "rm": s.rm, "cut-file": s.cutFile, "zero": s.zero, "flip": s.flip, "write": s.write,
		"marker": s.marker, "verify-transaction": s.verifyTransaction, "aborted": s.aborted,
		"scramble": s.scramble, "forget": s.forget, "remote": s.setRemote, "dump": s.dump, "verify": s.verify,
	}
	command, found := commands[d.Cmd]
	if !found {
		d.Fatalf(s.t, "no such command: %s", d.Cmd)
	}
	return command(d)
}

func number[T ~int | ~int8 | ~int16 | ~int32 | ~int64](s *scenario, d *datadriven.TestData, key string, otherwise T) T {
	n := int64(otherwise)
	d.MaybeScanArgs(s.t, key, &n)
	return T(n)
}

func (s *scenario) open(d *datadriven.TestData) (string, error) {
	s.config.SegmentBytes = number(s, d, "segment-bytes", s.config.SegmentBytes)
	s.config.SegmentMs = number(s, d, "segment-ms", s.config.SegmentMs)
	s.config.IndexIntervalBytes = number(s, d, "index-interval", s.config.IndexIntervalBytes)
	s.config.SegmentIndexBytes = number(s, d, "index-bytes", s.config.SegmentIndexBytes)
	policy := FlushGroup
	if d.HasArg("os") {
		policy = FlushOS
	}
	disk := &disk{fs: s.mem, store: s.store}
	var result LoadResult
	s.manager, result = disk.start(s.t, s.config, func(o *ManagerOptions) {
		o.Policy, o.ReserveBytes, o.Events = policy, s.reserve, s.watch()
		o.Remote = func(kafka.TopicIDPartition) (RemoteRange, bool) {
			if s.remote == nil {
				return RemoteRange{}, false
			}
			return *s.remote, true
		}
	})
	out := ""
	if result.Clean {
		out = "clean\n"
	}
	var err error
	if s.log, err = s.manager.Create(testTopic, testID, s.config, kafka.UUID{}); err != nil {
		return out, err
	}
	return out + s.offsetsLine(), nil
}

func (s *scenario) watch() *Events {
	note := func(format string, args ...any) { s.events = append(s.events, fmt.Sprintf(format, args...)) }
	return &Events{
		SegmentRolled: func(_ kafka.TopicPartition, base int64) { note("event: segment %d begins", base) },
		RecoveryCut: func(c RecoveryCut) {
			note("event: cut at offset %d: %d bytes, %d segments; %s at %d: %s",
				c.Offset, c.Bytes, c.SegmentsRemoved, c.File, c.Position, c.Reason)
		},
		IndexRebuilt: func(segment string, reason error) {
			note("event: indexes of %s rebuilt: %v", path.Base(segment), reason)
		},
		LogOffline:      func(kafka.TopicPartition, error) { note("event: log offline") },
		DirectoryFailed: func(string, error) { note("event: directory failed") },
	}
}

func (s *scenario) offsetsLine() string {
	l := s.log
	return fmt.Sprintf("start %d, local start %d, stable %d, high watermark %d, flushed %d, end %d\n", l.LogStartOffset(),
		l.LocalLogStartOffset(), l.LastStableOffset(), l.HighWatermark(), l.FlushedOffset(), l.EndOffset())
}

func (s *scenario) offsets(*datadriven.TestData) (string, error) { return s.offsetsLine(), nil }

func (s *scenario) close(*datadriven.TestData) (string, error) { return "", s.manager.Close() }

// kill ends the process and leaves the machine running; the state database has all it was told.
func (s *scenario) kill(*datadriven.TestData) (string, error) {
	s.mem = s.mem.KillClone()
	return "", s.store.sync()
}

// powerCut leaves what had been synced, and of the rest nothing, or what a seed says.
func (s *scenario) powerCut(d *datadriven.TestData) (string, error) {
	seed := number(s, d, "seed", -1)
	if seed < 0 {
		s.mem = s.mem.CrashCloneStrict()
		s.store = &memoryStore{durable: s.store.durable, values: s.store.durable}
		s.store = s.store.crashClone(rand.New(rand.NewPCG(0, 0)))
		return "", nil
	}
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	s.mem, s.store = s.mem.CrashClone(rng), s.store.crashClone(rng)
	return "", nil
}

// append writes batches: of how many records, with timestamps from ts on, each batch step later.
func (s *scenario) append(d *datadriven.TestData) (string, error) {
	records, ts, step := number(s, d, "records", 1), number(s, d, "ts", int64(1000)), number(s, d, "step", int64(10))
	epoch, at := number(s, d, "epoch", 0), number(s, d, "at", int64(1000))
	var codec string
	d.MaybeScanArgs(s.t, "codec", &codec)
	out := ""
	for i := range number(s, d, "batches", 1) {
		batch := batchOf(records, ts+int64(i)*step, func(o *record.BuilderOptions) {
			o.ProducerID = number(s, d, "producer", o.ProducerID)
			o.ProducerEpoch = number(s, d, "producer-epoch", o.ProducerEpoch)
			if o.ProducerID >= 0 {
				o.ProducerEpoch = max(o.ProducerEpoch, 0)
				o.BaseSequence = number(s, d, "sequence", int32(0))
			}
			o.Transactional = d.HasArg("transactional")
			if codec != "" {
				o.Codec, _ = record.ParseCodec(codec)
			}
		})
		guard := s.guard
		if d.HasArg("verified") {
			guard = s.log.BeginVerification(startOf(batch, false))
		}
		info, err := tryAppendWith(s.log, batch, AppendOptions{
			LeaderEpoch: kafka.LeaderEpoch(epoch), AppendedAt: at, Guard: guard,
		})
		if err != nil {
			return out, err
		}
		out += fmt.Sprintf("[%d, %d)", info.BaseOffset, info.EndOffset)
		if info.Duplicate {
			out += " duplicate"
		}
		out += "\n"
	}
	return out, nil
}

// marker ends a transaction.
func (s *scenario) marker(d *datadriven.TestData) (string, error) {
	marker := record.EndMarker{Type: record.Abort, CoordinatorEpoch: number(s, d, "coordinator", int32(0))}
	if d.HasArg("commit") {
		marker.Type = record.Commit
	}
	batch := record.NewEndMarker(number(s, d, "producer", int64(0)), number(s, d, "producer-epoch", int16(0)),
		number(s, d, "ts", int64(1000)), marker)
	info, err := appendMarker(s.log, batch, AppendOptions{
		LeaderEpoch: kafka.LeaderEpoch(number(s, d, "epoch", 0)), AppendedAt: number(s, d, "at", int64(1000)),
		TransactionVersion: number(s, d, "version", int8(0)),
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d\n", info.BaseOffset), nil
}

// verifyTransaction begins a verification and keeps the guard for the batches to come.
func (s *scenario) verifyTransaction(d *datadriven.TestData) (string, error) {
	s.guard = s.log.BeginVerification(TransactionStart{
		ProducerID: number(s, d, "producer", int64(0)), ProducerEpoch: number(s, d, "producer-epoch", int16(0)),
		BaseSequence: number(s, d, "sequence", int32(0)), BumpsEpoch: d.HasArg("bumps-epoch"),
	})
	if s.guard == NoGuard {
		return "not needed\n", nil
	}
	return fmt.Sprintf("guard %d\n", s.guard), nil
}

// aborted lists what readers of committed data leave out.
func (s *scenario) aborted(d *datadriven.TestData) (string, error) {
	found, err := s.log.AbortedTransactions(number(s, d, "from", int64(0)), number(s, d, "to", s.log.EndOffset()))
	out := ""
	for _, transaction := range found {
		out += transaction.String() + "\n"
	}
	if out == "" {
		out = "none\n"
	}
	return out, err
}

func (s *scenario) roll(*datadriven.TestData) (string, error)  { return "", s.log.Roll() }
func (s *scenario) flush(*datadriven.TestData) (string, error) { return "", s.log.Flush() }
func (s *scenario) checkpoint(*datadriven.TestData) (string, error) {
	return "", s.log.saveCheckpoint()
}

func (s *scenario) argument(d *datadriven.TestData) int64 {
	var n int64
	d.ScanArgs(s.t, "to", &n)
	return n
}

func (s *scenario) truncate(d *datadriven.TestData) (string, error) {
	err := s.log.Truncate(s.argument(d))
	return s.offsetsLine(), err
}

func (s *scenario) restartAt(d *datadriven.TestData) (string, error) {
	err := s.log.TruncateFullyAndStartAt(s.argument(d))
	return s.offsetsLine(), err
}

func (s *scenario) highWatermark(d *datadriven.TestData) (string, error) {
	return fmt.Sprintf("%d\n", s.log.SetHighWatermark(s.argument(d))), nil
}

func (s *scenario) logStart(d *datadriven.TestData) (string, error) {
	err := s.log.MoveLogStart(s.argument(d))
	return s.offsetsLine(), err
}

func (s *scenario) localStart(d *datadriven.TestData) (string, error) {
	removed, err := s.log.MoveLocalStart(s.argument(d), "test")
	return fmt.Sprintf("%d dropped; %s", removed, s.offsetsLine()), err
}

func (s *scenario) epoch(d *datadriven.TestData) (string, error) {
	s.log.AssignEpoch(kafka.LeaderEpoch(s.argument(d)))
	return "", nil
}

func (s *scenario) endOfEpoch(d *datadriven.TestData) (string, error) {
	out := ""
	for epoch := number(s, d, "from", 0); epoch <= number(s, d, "to", 0); epoch++ {
		answer := s.log.EndOffsetForEpoch(kafka.LeaderEpoch(epoch))
		out += fmt.Sprintf("%d: epoch %d ends at %d\n", epoch, answer.Epoch, answer.EndOffset)
	}
	return out, nil
}

func (s *scenario) epochs(*datadriven.TestData) (string, error) {
	out := ""
	for _, entry := range s.log.Epochs() {
		out += fmt.Sprintf("epoch %d from %d\n", entry.Epoch, entry.StartOffset)
	}
	return out, nil
}

func (s *scenario) segments(*datadriven.TestData) (string, error) {
	out := ""
	for _, info := range s.log.Segments() {
		out += fmt.Sprintf("[%d, %d) %d bytes, max timestamp %d at %d, appended %s to %s", info.BaseOffset, info.EndOffset,
			info.Size, info.MaxTimestamp, info.MaxTimestampOffset, clock(info.FirstAppendedAt), clock(info.LastAppendedAt))
		if info.Sealed {
			out += ", sealed"
		}
		if info.Damaged {
			out += ", damaged"
		}
		out += "\n"
	}
	return out, nil
}

// clock prints a broker time, of which scenarios use small ones: what recovery had to guess is the present.
func clock(ms int64) string {
	if ms > 1e12 {
		return "now"
	}
	return fmt.Sprint(ms)
}

func (s *scenario) read(d *datadriven.TestData) (string, error) {
	req := ReadRequest{
		Offset: number(s, d, "from", int64(0)), MaxBytes: number(s, d, "max-bytes", 1<<20),
		AtLeastOne: d.HasArg("at-least-one"), UpTo: number(s, d, "up-to", s.log.EndOffset()),
	}
	result, err := s.log.Read(req)
	if errors.Is(err, ErrNotLocal) {
		return "not local\n", nil
	}
	if err != nil {
		return "", err
	}
	defer result.Region.Release()
	out := fmt.Sprintf("%d bytes, first offset %d, next offset %d:", result.Size, result.FirstOffset, result.NextOffset)
	for data := regionBytes(s.t, result.Region); len(data) > 0; {
		batch, rest, err := record.Next(data)
		if err != nil {
			return out, err
		}
		out += fmt.Sprintf(" [%d, %d)", batch.BaseOffset(), batch.NextOffset())
		data = rest
	}
	return out + "\n", nil
}

// readAll reads batch by batch and checks that each is whole.
func (s *scenario) readAll(*datadriven.TestData) (string, error) {
	count, last := 0, int64(-1)
	for offset := s.log.LocalLogStartOffset(); offset < s.log.EndOffset(); {
		result, err := s.log.Read(ReadRequest{Offset: offset, AtLeastOne: true, UpTo: s.log.EndOffset()})
		if err != nil {
			return "", err
		}
		batch := record.Batch(regionBytes(s.t, result.Region))
		result.Region.Release()
		if err := batch.VerifyCRC(); err != nil {
			return "", err
		}
		if batch.NextOffset() <= offset || batch.BaseOffset() <= last && last >= 0 {
			return "", fmt.Errorf("batch [%d, %d) at offset %d", batch.BaseOffset(), batch.NextOffset(), offset)
		}
		count, last, offset = count+1, batch.LastOffset(), result.NextOffset
	}
	return fmt.Sprintf("%d batches\n", count), nil
}

func (s *scenario) time(d *datadriven.TestData) (string, error) {
	out := ""
	for ts := number(s, d, "from", int64(0)); ts <= number(s, d, "to", int64(0)); ts += number(s, d, "step", int64(1)) {
		found, ok, err := s.log.OffsetForTimestamp(ts, number(s, d, "up-to", s.log.EndOffset()))
		if err != nil {
			return out, err
		}
		if !ok {
			out += fmt.Sprintf("%d: none\n", ts)
			continue
		}
		out += fmt.Sprintf("%d: offset %d, timestamp %d, epoch %d\n", ts, found.Offset, found.Timestamp, found.Epoch)
	}
	return out, nil
}

func (s *scenario) maxTime(d *datadriven.TestData) (string, error) {
	found, ok, err := s.log.MaxTimestamp(number(s, d, "up-to", s.log.EndOffset()))
	if err != nil || !ok {
		return "none\n", err
	}
	return fmt.Sprintf("offset %d, timestamp %d, epoch %d\n", found.Offset, found.Timestamp, found.Epoch), nil
}

func (s *scenario) producers(d *datadriven.TestData) (string, error) {
	data, err := s.log.ProducerSnapshotAt(number(s, d, "at", s.log.EndOffset()))
	if err != nil {
		return "", err
	}
	entries, err := ParseProducerSnapshot(data)
	out := ""
	for _, entry := range entries {
		out += entry.String() + "\n"
	}
	return out, err
}

func (s *scenario) setReserve(d *datadriven.TestData) (string, error) {
	d.MaybeScanArgs(s.t, "bytes", &s.reserve)
	var free int64
	d.ScanArgs(s.t, "free", &free)
	s.mem.SetFreeBytes(free)
	return "", nil
}

// The commands below lay hands on the files, as a person or a bad disk might.

func (s *scenario) file(d *datadriven.TestData) string {
	var name string
	d.ScanArgs(s.t, "file", &name)
	return path.Join(scenarioFolder, name)
}

func (s *scenario) ls(*datadriven.TestData) (string, error) {
	names, err := s.mem.List(scenarioFolder)
	out := ""
	for _, name := range names {
		info, err := s.mem.Stat(path.Join(scenarioFolder, name))
		if err != nil {
			return out, err
		}
		out += fmt.Sprintf("%s %d\n", name, info.Size())
	}
	return out, err
}

func (s *scenario) rm(d *datadriven.TestData) (string, error) { return "", s.mem.RemoveAll(s.file(d)) }

func (s *scenario) edit(d *datadriven.TestData, edit func(file vfs.File, size int64) error) (string, error) {
	file, err := s.mem.OpenReadWrite(s.file(d))
	if err != nil {
		return "", err
	}
	size, err := file.Size()
	return "", errors.Join(err, edit(file, size), file.Sync(), file.Close())
}

// cutFile takes bytes off the end of a file, or adds zeros if there are fewer than none.
func (s *scenario) cutFile(d *datadriven.TestData) (string, error) {
	return s.edit(d, func(file vfs.File, size int64) error { return file.Truncate(size - number(s, d, "by", int64(1))) })
}

func (s *scenario) zero(d *datadriven.TestData) (string, error) {
	return s.edit(d, func(file vfs.File, size int64) error {
		_, err := file.WriteAt(make([]byte, size), 0)
		return err
	})
}

func (s *scenario) flip(d *datadriven.TestData) (string, error) {
	return s.edit(d, func(file vfs.File, size int64) error {
		at, one := number(s, d, "at", int64(0)), make([]byte, 1)
		_, readErr := file.ReadAt(one, at)
		one[0] ^= 0x10
		_, writeErr := file.WriteAt(one, at)
		return errors.Join(readErr, writeErr)
	})
}

func (s *scenario) write(d *datadriven.TestData) (string, error) {
	return s.edit(d, func(file vfs.File, size int64) error {
		_, err := file.WriteAt([]byte(d.Input), number(s, d, "at", size))
		return err
	})
}

func (s *scenario) scramble(d *datadriven.TestData) (string, error) {
	return s.edit(d, func(file vfs.File, size int64) error {
		rng := rand.New(rand.NewPCG(uint64(number(s, d, "seed", 1)), 0))
		noise := make([]byte, size)
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		_, err := file.WriteAt(noise, 0)
		return err
	})
}

// forget empties the state database.
func (s *scenario) forget(*datadriven.TestData) (string, error) {
	s.store = newMemoryStore()
	return "", nil
}

func (s *scenario) setRemote(d *datadriven.TestData) (string, error) {
	s.remote = &RemoteRange{StartOffset: number(s, d, "from", int64(0)), EndOffset: number(s, d, "to", int64(0))}
	return "", nil
}

func (s *scenario) dump(d *datadriven.TestData) (string, error) {
	out := ""
	err := Dump(s.mem, s.file(d), DumpOptions{Records: d.HasArg("records")}, func(item fmt.Stringer) error {
		out += item.String() + "\n"
		return nil
	})
	return out, err
}

func (s *scenario) verify(*datadriven.TestData) (string, error) {
	report, err := Verify(s.mem, scenarioFolder)
	out := fmt.Sprintf("%d files, %d batches, %d records, %d bytes\n",
		report.Files, report.Batches, report.Records, report.Bytes)
	for _, problem := range report.Problems {
		out += problem.String() + "\n"
	}
	return out, err
}
