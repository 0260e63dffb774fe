package sampler

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Process is what a process has used since it was started.
type Process struct {
	// CPU is user and system time of all threads, in steps of 10 ms; Children that of processes that it has waited for.
	CPU, Children time.Duration
	// Resident is the memory that is in use now, Peak the most that ever was, both in bytes.
	Resident, Peak int64
	// Voluntary context switches are waits, Involuntary ones that somebody else was given the processor. Those of
	// threads that have ended are not counted.
	Voluntary, Involuntary int64
	// Reads and Writes are system calls as the kernel counts them: read, pread, sendfile and their kind.
	Reads, Writes int64
	Threads       int64
}

// ticksPerSecond is the unit of /proc/PID/stat on every Linux that Go runs on.
const ticksPerSecond = 100

// Of reads the numbers of a process.
func Of(pid int) (Process, error) {
	folder := fmt.Sprintf("/proc/%d", pid)
	var p Process
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return Process{}, err
	}
	if p.CPU, p.Children, err = parseStat(stat); err != nil {
		return Process{}, fmt.Errorf("%s/stat: %w", folder, err)
	}
	status, err := numbersOf(filepath.Join(folder, "status"))
	if err != nil {
		return Process{}, err
	}
	p.Resident, p.Peak, p.Threads = status["VmRSS"]<<10, status["VmHWM"]<<10, status["Threads"]
	calls, err := numbersOf(filepath.Join(folder, "io"))
	if err != nil {
		return Process{}, err
	}
	p.Reads, p.Writes = calls["syscr"], calls["syscw"]
	threads, err := filepath.Glob(filepath.Join(folder, "task", "*", "status"))
	if err != nil {
		return Process{}, err
	}
	for _, name := range threads {
		thread, err := numbersOf(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		if err != nil {
			return Process{}, err
		}
		p.Voluntary += thread["voluntary_ctxt_switches"]
		p.Involuntary += thread["nonvoluntary_ctxt_switches"]
	}
	return p, nil
}

// Since is what was used between two readings. Memory, threads and the peak are those of the later one.
func (p Process) Since(before Process) Process {
	p.CPU -= before.CPU
	p.Children -= before.Children
	p.Voluntary = max(p.Voluntary-before.Voluntary, 0)
	p.Involuntary = max(p.Involuntary-before.Involuntary, 0)
	p.Reads -= before.Reads
	p.Writes -= before.Writes
	return p
}

// parseStat finds processor times. The name, which comes before them, may hold spaces and parentheses.
func parseStat(stat []byte) (own, children time.Duration, err error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	const userTime, times = 11, 4 // the fields 14 to 17 of proc(5), behind the name and counted from 0
	if end < 0 || len(fields) < userTime+times {
		return 0, 0, fmt.Errorf("it has %d fields", len(fields))
	}
	var spent [times]time.Duration
	for i, field := range fields[userTime : userTime+times] {
		ticks, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, 0, err
		}
		spent[i] = time.Duration(ticks) * time.Second / ticksPerSecond
	}
	return spent[0] + spent[1], spent[2] + spent[3], nil
}

// numbersOf reads lines of a name, a colon and a number; others are passed over.
func numbersOf(name string) (map[string]int64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parseNumbers(string(text)), nil
}

func parseNumbers(text string) map[string]int64 {
	numbers := map[string]int64{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if fields := strings.Fields(value); len(fields) > 0 {
			if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
				numbers[key] = n
			}
		}
	}
	return numbers
}
