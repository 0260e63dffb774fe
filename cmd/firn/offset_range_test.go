package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// now is the moment at which the ranges of these tests are parsed.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(text string) int64 {
	moment, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return moment.UnixMilli()
}

func TestOffsetRanges(t *testing.T) {
	start, end := border{kind: atStart}, border{kind: atEnd}
	offset := func(n int64) border { return border{kind: atOffset, value: n} }
	moment := func(ms int64) border { return border{kind: atTimestamp, value: ms} }
	for _, test := range []struct {
		text     string
		from, to border
		bounded  bool
	}{
		{"start", start, end, false},
		{"oldest", start, end, false},
		{"end", end, end, false},
		{"latest", end, end, false},
		{"47", offset(47), end, false},
		{"0", offset(0), end, false},
		{"9223372036854775807", offset(math.MaxInt64), end, false},
		{"+2", border{kind: afterStart, value: 2}, end, false},
		{"-3", border{kind: beforeEnd, value: 3}, end, false},
		{":", start, end, false},
		{":end", start, end, true},
		{":10", start, offset(10), true},
		{"5:", offset(5), end, false},
		{"5:10", offset(5), offset(10), true},
		{"5:5", offset(5), offset(5), true},
		{"5:+10", offset(5), border{kind: afterFrom, value: 10}, true},
		{"-10:-3", border{kind: beforeEnd, value: 10}, border{kind: beforeEnd, value: 3}, true},
		{"start:end", start, end, true},
		{"@1357035300000", moment(1357035300000), end, false},
		{"@0", moment(0), end, false},
		{"@2013-01-31", moment(at("2013-01-31T00:00:00Z")), end, false},
		{"@2013-01-31T10:15:00Z", moment(at("2013-01-31T10:15:00Z")), end, false},
		{"@2013-01-31 10:15:00z", moment(at("2013-01-31T10:15:00Z")), end, false},
		{"@2013-01-31T10:15:00.250+02:00", moment(at("2013-01-31T08:15:00.25Z")), end, false},
		{"@2013-01-31T10:15:00Z:2013-02-01T00:00:00Z", moment(at("2013-01-31T10:15:00Z")),
			moment(at("2013-02-01T00:00:00Z")), true},
		{"@2013-01-31T10:15:00Z:90m", moment(at("2013-01-31T10:15:00Z")), moment(at("2013-01-31T11:45:00Z")), true},
		{"@2013-01-15:24h", moment(at("2013-01-15T00:00:00Z")), moment(at("2013-01-16T00:00:00Z")), true},
		{"@2013-01-15:+7d", moment(at("2013-01-15T00:00:00Z")), moment(at("2013-01-22T00:00:00Z")), true},
		{"@-1h", moment(now.Add(-time.Hour).UnixMilli()), end, false},
		{"@-2h:-1h", moment(now.Add(-2 * time.Hour).UnixMilli()), moment(now.Add(-time.Hour).UnixMilli()), true},
		{"@:-1h", start, moment(now.Add(-time.Hour).UnixMilli()), true},
		{"@-1h:", moment(now.Add(-time.Hour).UnixMilli()), end, false},
		{"@-1h:end", moment(now.Add(-time.Hour).UnixMilli()), end, true},
		{"@-1h:now", moment(now.Add(-time.Hour).UnixMilli()), moment(now.UnixMilli()), true},
		{"@start:now", start, moment(now.UnixMilli()), true},
		{"@1000:2000", moment(1000), moment(2000), true},
	} {
		got, err := parseOffsetRange(test.text, now)
		if want := (offsetRange{from: test.from, to: test.to, bounded: test.bounded}); err != nil || got != want {
			t.Errorf("%q is %+v, error %v, want %+v", test.text, got, err, want)
		}
	}
}

func TestWrongOffsetRangesSayWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "it is empty"},
		{"middle", "times begin with @"},
		{"1.5", "is not start, end"},
		{"--3", "is not start, end"},
		{"+", "is not start, end"},
		{"9223372036854775808", "is not start, end"},
		{"1:2:3", `"2:3" is not`},
		{"10:5", "it ends before it begins"},
		{"@", "a time is missing"},
		{"@tomorrow", "is not a time"},
		{"@1h", "-1h means that long ago"},
		{"@:1h", "must then be a time"},
		{"@2013-01-31T10:15:00Zjunk", `"junk" follows a time`},
		{"@2013-01-31:2013-01-30", "it ends before it begins"},
		{"@--1h", "is not a duration"},
		{"@2013-13-01", "is not a time"},
	} {
		if got, err := parseOffsetRange(test.text, now); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q is %+v, error %v, want %q", test.text, got, err, test.want)
		}
	}
}

// TestCL09RangesAreExactOnEmptyAndFullTopics: a range becomes exactly the offsets that it names, never more.
func TestCL09RangesAreExactOnEmptyAndFullTopics(t *testing.T) {
	full := partitionBorders{logStart: 0, end: 20, fromTime: 8, toTime: 15}
	trimmed := partitionBorders{logStart: 12, end: 20, fromTime: 14, toTime: 15}
	empty := partitionBorders{logStart: 7, end: 7, fromTime: 7, toTime: 7}
	for _, test := range []struct {
		text                 string
		full, trimmed, empty string
	}{
		{"start", "0-20", "12-20", "7-7"},
		{"end", "20-20", "20-20", "7-7"},
		{":end", "0-20", "12-20", "7-7"},
		{"5:10", "5-10", "12-12", "7-7"},
		{"15:99", "15-20", "15-20", "7-7"},
		{"-3", "17-20", "17-20", "7-7"},
		{"-100", "0-20", "12-20", "7-7"},
		{"+2", "2-20", "14-20", "7-7"},
		{"+99", "20-20", "20-20", "7-7"},
		{"+9223372036854775807", "20-20", "20-20", "7-7"},
		{"5:+10", "5-15", "12-20", "7-7"},
		{"-10:-3", "10-17", "12-17", "7-7"},
		{"@:-1h", "0-15", "12-15", "7-7"},
		{"@-2h:-1h", "8-15", "14-15", "7-7"},
		{"@-2h", "8-20", "14-20", "7-7"},
	} {
		parsed, err := parseOffsetRange(test.text, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, log := range []struct {
			name    string
			borders partitionBorders
			want    string
		}{{"full", full, test.full}, {"trimmed", trimmed, test.trimmed}, {"empty", empty, test.empty}} {
			got := parsed.resolve(log.borders)
			if span := fmt.Sprintf("%d-%d", got.start, got.end); span != log.want {
				t.Errorf("%s of the %s log is %s, want %s", test.text, log.name, span, log.want)
			}
		}
	}
}

func TestAnOffsetThatIsNotThereIsSaid(t *testing.T) {
	for _, test := range []struct {
		text, want string
	}{
		{"5", "offset 5 is no longer there: reading from the log start offset 12"},
		{"25", "offset 25 is not there yet: the log ends at 20"},
		{"20", ""},
		{"12", ""},
		{"-100", ""},
	} {
		parsed, err := parseOffsetRange(test.text, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.resolve(partitionBorders{logStart: 12, end: 20}).note; got != test.want {
			t.Errorf("-o %s notes %q, want %q", test.text, got, test.want)
		}
	}
}

func TestAResolvedSpanLiesWithinItsLog(t *testing.T) {
	side := rapid.Custom(func(t *rapid.T) border {
		return border{kind: borderKind(rapid.IntRange(int(atStart), int(atTimestamp)).Draw(t, "kind")),
			value: rapid.Int64Range(0, math.MaxInt64).Draw(t, "value")}
	})
	rapid.Check(t, func(t *rapid.T) {
		logStart := rapid.Int64Range(0, math.MaxInt64).Draw(t, "logStart")
		borders := partitionBorders{logStart: logStart, end: rapid.Int64Range(logStart, math.MaxInt64).Draw(t, "end")}
		borders.fromTime = rapid.Int64Range(logStart, borders.end).Draw(t, "fromTime")
		borders.toTime = rapid.Int64Range(logStart, borders.end).Draw(t, "toTime")
		got := offsetRange{from: side.Draw(t, "from"), to: side.Draw(t, "to")}.resolve(borders)
		if got.start < borders.logStart || got.end > borders.end || got.start > got.end {
			t.Fatalf("%+v is not within %+v", got, borders)
		}
	})
}
