package manifest_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
)

func TestRetentionTakesWholeSegmentsFromTheFront(t *testing.T) {
	const now = 1_000_000
	// Three segments of 100 bytes, ten offsets each, their newest records 300, 200 and 100 ms old.
	run := func() manifest.Entries {
		var entries manifest.Entries
		for i := range int64(3) {
			entries = append(entries, command.SegmentEntry{BaseOffset: 10 * i, EndOffset: 10 * (i + 1), DataBytes: 100,
				MaxTimestamp: now - 300 + 100*i, LastAppendedAt: now - 300 + 100*i})
		}
		return entries
	}
	unlimited := manifest.Limits{RetentionMs: -1, RetentionBytes: -1, Now: now}
	cases := []struct {
		name   string
		change func(manifest.Entries, *manifest.Limits)
		want   manifest.Expiry
	}{
		{"no limit keeps everything", func(manifest.Entries, *manifest.Limits) {}, manifest.Expiry{}},
		{"a segment is kept while its newest record is young enough",
			func(_ manifest.Entries, limits *manifest.Limits) { limits.RetentionMs = 200 }, manifest.Expiry{ByTime: 1}},
		{"a limit of zero milliseconds takes everything",
			func(_ manifest.Entries, limits *manifest.Limits) { limits.RetentionMs = 0 }, manifest.Expiry{ByTime: 3}},
		{"an old segment behind a young one stays",
			func(entries manifest.Entries, limits *manifest.Limits) {
				limits.RetentionMs, entries[0].MaxTimestamp, entries[0].LastAppendedAt = 150, now, now
			}, manifest.Expiry{}},
		{"RE-01 a timestamp in the far future counts as the time of its append",
			func(entries manifest.Entries, limits *manifest.Limits) {
				limits.RetentionMs, entries[0].MaxTimestamp = 250, now*1000
			}, manifest.Expiry{ByTime: 1}},
		{"an old record appended today is as old as it says",
			func(entries manifest.Entries, limits *manifest.Limits) {
				limits.RetentionMs, entries[0].LastAppendedAt = 250, now
			}, manifest.Expiry{ByTime: 1}},
		{"without timestamps the append time counts",
			func(entries manifest.Entries, limits *manifest.Limits) {
				limits.RetentionMs, entries[0].MaxTimestamp = 250, -1
			}, manifest.Expiry{ByTime: 1}},
		{"without any time nothing expires by time",
			func(entries manifest.Entries, limits *manifest.Limits) {
				limits.RetentionMs, entries[0].MaxTimestamp, entries[0].LastAppendedAt = 0, -1, -1
			}, manifest.Expiry{}},
		{"size leaves at least the limit",
			func(_ manifest.Entries, limits *manifest.Limits) { limits.RetentionBytes = 201 }, manifest.Expiry{}},
		{"size takes a segment as soon as the rest reaches the limit",
			func(_ manifest.Entries, limits *manifest.Limits) { limits.RetentionBytes = 200 }, manifest.Expiry{BySize: 1}},
		{"local bytes above the remote end count", func(_ manifest.Entries, limits *manifest.Limits) {
			limits.RetentionBytes, limits.LocalBytes = 200, 199
		}, manifest.Expiry{BySize: 2}},
		{"TI-02 nothing goes while the total is under the limit",
			func(_ manifest.Entries, limits *manifest.Limits) {
				limits.RetentionBytes, limits.LocalBytes = 1000, 600
			}, manifest.Expiry{}},
		{"segments wholly below the log start go",
			func(_ manifest.Entries, limits *manifest.Limits) { limits.LogStartOffset = 25 }, manifest.Expiry{ByLogStart: 2}},
		{"RE-07 one sweep applies all limits",
			func(_ manifest.Entries, limits *manifest.Limits) {
				limits.LogStartOffset, limits.RetentionMs, limits.RetentionBytes = 10, 150, 250
			}, manifest.Expiry{ByLogStart: 1, ByTime: 2}},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			entries, limits := run(), unlimited
			test.change(entries, &limits)
			if got := entries.Expired(limits); got != test.want {
				t.Errorf("%+v instead of %+v", got, test.want)
			}
		})
	}
}

// TestASecondSweepTakesNothing: one sweep reaches the steady state (RE-07), and what it keeps is within the limits.
func TestASecondSweepTakesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, _ := drawRun(t)
		limits := manifest.Limits{
			LogStartOffset: rapid.Int64Range(0, 40).Draw(t, "log start"),
			RetentionMs:    rapid.Int64Range(-1, 25).Draw(t, "retention.ms"),
			RetentionBytes: rapid.Int64Range(-1, 500).Draw(t, "retention.bytes"),
			LocalBytes:     rapid.Int64Range(0, 100).Draw(t, "local"),
			Now:            25,
		}
		count := entries.Expired(limits).Count()
		start := entries.NewStart(count, limits.LogStartOffset)
		if start < limits.LogStartOffset || count > 0 && start < entries[count-1].EndOffset {
			t.Fatalf("the log start moves from %d to %d after %d segments", limits.LogStartOffset, start, count)
		}
		limits.LogStartOffset = start
		if again := entries[count:].Expired(limits).Count(); again != 0 {
			t.Fatalf("a second sweep takes %d more after %d", again, count)
		}
		total := entries[count:].Summarize().DataBytes + limits.LocalBytes
		before := entries.Summarize().DataBytes + limits.LocalBytes
		if by := entries.Expired(manifest.Limits{RetentionMs: -1, RetentionBytes: limits.RetentionBytes,
			LocalBytes: limits.LocalBytes}); by.Count() == count && count > 0 && total < limits.RetentionBytes {
			t.Fatalf("size took the log from %d to %d bytes, below the limit of %d", before, total, limits.RetentionBytes)
		}
	})
}
