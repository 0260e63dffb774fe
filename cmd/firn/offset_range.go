package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// offsetRange is what -o asks for: where to begin in each partition, and where to stop.
type offsetRange struct {
	from    border
	to      border
	bounded bool // an end was asked for
}

// border is one side of a range, before the partition's offsets are known.
type border struct {
	kind  borderKind
	value int64 // an offset, a number of records, or Unix milliseconds
}

type borderKind int

const (
	atStart     borderKind = iota // the log start offset
	atEnd                         // the end at the time of the command
	atOffset                      // value is an offset
	afterStart                    // value records after the log start offset
	beforeEnd                     // value records before the end
	afterFrom                     // value records after where the range begins: only as the range's end
	atTimestamp                   // the first record at or after the Unix milliseconds in value
)

const offsetHelp = `where to read: FROM or FROM:TO, TO excluded. A side is start, end, an offset, +N (N after the start;
as TO: N records) or -N (N before the end). With @ in front the sides are times: Unix ms, 2013-01-31, RFC 3339,
-2h (ago), as TO also 2h (after FROM). A side left out is start, or end. Examples: 47, -10, 5:10, :end,
@-1h, @2013-01-15:24h, @:-1h`

// parseOffsetRange reads the argument of -o. Times relative to now are taken from now.
func parseOffsetRange(text string, now time.Time) (offsetRange, error) {
	var parsed offsetRange
	var err error
	if times, ok := strings.CutPrefix(text, "@"); ok {
		parsed, err = parseTimeRange(times, now)
	} else {
		parsed, err = parseNumberRange(text)
	}
	if err != nil {
		return offsetRange{}, fmt.Errorf("offset %q: %w", text, err)
	}
	return parsed, nil
}

func parseNumberRange(text string) (offsetRange, error) {
	if text == "" {
		return offsetRange{}, errors.New("it is empty: try start, end, 47, -10 or 5:10")
	}
	from, to, _ := strings.Cut(text, ":")
	parsed := offsetRange{from: border{kind: atStart}, to: border{kind: atEnd}, bounded: to != ""}
	var err error
	if from != "" {
		if parsed.from, err = parseNumberBorder(from, afterStart); err != nil {
			return parsed, err
		}
	}
	if to != "" {
		if parsed.to, err = parseNumberBorder(to, afterFrom); err != nil {
			return parsed, err
		}
	}
	if parsed.from.kind == atOffset && parsed.to.kind == atOffset && parsed.to.value < parsed.from.value {
		return parsed, errors.New("it ends before it begins")
	}
	return parsed, nil
}

// parseNumberBorder reads one side; plus says what +N means there.
func parseNumberBorder(text string, plus borderKind) (border, error) {
	switch text {
	case "start", "oldest", "earliest", "beginning":
		return border{kind: atStart}, nil
	case "end", "newest", "latest":
		return border{kind: atEnd}, nil
	}
	kind, digits := atOffset, text
	switch text[0] {
	case '+':
		kind, digits = plus, text[1:]
	case '-':
		kind, digits = beforeEnd, text[1:]
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return border{}, fmt.Errorf("%q is not start, end, a number, +N or -N (times begin with @)", text)
	}
	return border{kind: kind, value: int64(n)}, nil
}

// dateTime matches the one kind of time that holds colons itself.
var dateTime = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})`)

func parseTimeRange(text string, now time.Time) (offsetRange, error) {
	from, rest, isRange := strings.Cut(text, ":")
	if whole := dateTime.FindString(text); whole != "" {
		from = whole
		if rest, isRange = strings.CutPrefix(text[len(whole):], ":"); rest != "" && !isRange {
			return offsetRange{}, fmt.Errorf("%q follows a time", rest)
		}
	}
	if from == "" && !isRange {
		return offsetRange{}, errors.New("a time is missing after @")
	}
	parsed := offsetRange{from: border{kind: atStart}, to: border{kind: atEnd}, bounded: rest != ""}
	var err error
	if from != "" {
		if parsed.from, err = parseTimeBorder(from, now, nil); err != nil {
			return parsed, err
		}
	}
	if rest != "" {
		if parsed.to, err = parseTimeBorder(rest, now, &parsed.from); err != nil {
			return parsed, err
		}
	}
	if parsed.from.kind == atTimestamp && parsed.to.kind == atTimestamp && parsed.to.value < parsed.from.value {
		return parsed, errors.New("it ends before it begins")
	}
	return parsed, nil
}

// parseTimeBorder reads one side of a range of times; from is set when it is the range's end.
func parseTimeBorder(text string, now time.Time, from *border) (border, error) {
	switch text {
	case "start":
		return border{kind: atStart}, nil
	case "end":
		return border{kind: atEnd}, nil
	case "now":
		return border{kind: atTimestamp, value: now.UnixMilli()}, nil
	}
	if ago, ok := strings.CutPrefix(text, "-"); ok {
		duration, err := parseDuration(ago)
		if err != nil {
			return border{}, err
		}
		return border{kind: atTimestamp, value: now.Add(-duration).UnixMilli()}, nil
	}
	if moment, err := parseMoment(text); err == nil {
		return border{kind: atTimestamp, value: moment.UnixMilli()}, nil
	}
	duration, err := parseDuration(strings.TrimPrefix(text, "+"))
	switch {
	case err != nil:
		return border{}, fmt.Errorf("%q is not a time: try 1357035300000, 2013-01-31, 2013-01-31T10:00:00Z or -2h", text)
	case from == nil:
		return border{}, fmt.Errorf("%q is not a time: -%s means that long ago", text, strings.TrimPrefix(text, "+"))
	case from.kind != atTimestamp:
		return border{}, fmt.Errorf("%q counts from where the range begins, which must then be a time", text)
	}
	return border{kind: atTimestamp, value: from.value + duration.Milliseconds()}, nil
}

// parseMoment reads a fixed time: Unix milliseconds, a date (its first moment, UTC) or RFC 3339.
func parseMoment(text string) (time.Time, error) {
	if ms, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.UnixMilli(int64(ms)), nil
	}
	if date, err := time.Parse(time.DateOnly, text); err == nil {
		return date, nil
	}
	moment, err := time.Parse(time.RFC3339Nano, strings.ToUpper(strings.Replace(text, " ", "T", 1)))
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time: give Unix milliseconds, a date or RFC 3339", text)
	}
	return moment, nil
}

// parseDuration reads Go's durations, and days.
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16) // 65 535 days are 179 years; a Duration holds 292
		if err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration < 0 {
		return 0, fmt.Errorf("%q is not a duration: try 90s, 30m, 2h or 7d", text)
	}
	return duration, nil
}

// span is the offsets of one partition that a command reads: [start, end).
type span struct {
	start, end int64
	note       string // what of the request could not be had
}

// partitionBorders are what a partition has, and the offsets of the range's times in it.
type partitionBorders struct {
	logStart, end    int64
	fromTime, toTime int64 // offsets of the first record at or after the range's times, where it has any
}

// resolve turns the request into offsets of one partition. What lies outside the log is cut off, and said.
func (r offsetRange) resolve(b partitionBorders) span {
	start := r.from.resolve(b, b.logStart, b.fromTime)
	end := r.to.resolve(b, start, b.toTime)
	resolved := span{start: min(max(start, b.logStart), b.end), end: min(max(end, b.logStart), b.end)}
	resolved.end = max(resolved.end, resolved.start)
	switch {
	case r.from.kind == atOffset && start < b.logStart:
		resolved.note = fmt.Sprintf("offset %d is no longer there: reading from the log start offset %d", start, b.logStart)
	case r.from.kind == atOffset && start > b.end:
		resolved.note = fmt.Sprintf("offset %d is not there yet: the log ends at %d", start, b.end)
	}
	return resolved
}

// resolve returns the offset of one side; from is where the range begins, timed the offset of this side's time.
func (b border) resolve(p partitionBorders, from, timed int64) int64 {
	switch b.kind {
	case atStart:
		return p.logStart
	case atEnd:
		return p.end
	case atOffset:
		return b.value
	case afterStart:
		return addSaturating(p.logStart, b.value)
	case beforeEnd:
		return p.end - b.value
	case afterFrom:
		return addSaturating(max(from, p.logStart), b.value)
	}
	return timed
}

// addSaturating adds a count to an offset without wrapping around.
func addSaturating(offset, count int64) int64 {
	if sum := offset + count; sum >= offset {
		return sum
	}
	return int64(^uint64(0) >> 1)
}
