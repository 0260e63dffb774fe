package record

import (
	"errors"
	"testing"
)

func batchAt(codec Codec, kind TimestampType, baseOffset int64, timestamps ...int64) Batch {
	opts := PlainProducer()
	opts.Codec, opts.TimestampType, opts.BaseOffset = codec, kind, baseOffset
	builder := NewBuilder(opts)
	for _, timestamp := range timestamps {
		builder.Append(timestamp, nil, make([]byte, 40<<10)) // records cross from piece to piece
	}
	return builder.Build()
}

func TestOF02ALookUpByTimeFindsTheFirstRecordAtOrAfterIt(t *testing.T) {
	var lookup Lookup
	for _, codec := range allCodecs {
		batch := batchAt(codec, CreateTime, 10, 2, 4, 6, 8)
		for target, want := range map[int64]TimestampOffset{
			1: {10, 2}, 2: {10, 2}, 3: {11, 4}, 4: {11, 4}, 5: {12, 6}, 6: {12, 6}, 7: {13, 8}, 8: {13, 8},
		} {
			got, ok, err := lookup.OffsetForTimestamp(batch, target, 0)
			if err != nil || !ok || got != want {
				t.Errorf("%s: %d is at %+v, %t, %v", codec, target, got, ok, err)
			}
		}
		if got, ok, err := lookup.OffsetForTimestamp(batch, 9, 0); ok || err != nil {
			t.Errorf("%s: 9 is at %+v, %v", codec, got, err)
		}
	}
}

func TestALookUpByTimeKeepsToTheLogStart(t *testing.T) {
	var lookup Lookup
	batch := batchAt(None, CreateTime, 10, 5, 9, 6)
	for from, want := range map[int64]TimestampOffset{0: {10, 5}, 10: {10, 5}, 11: {11, 9}, 12: {12, 6}} {
		if got, ok, err := lookup.OffsetForTimestamp(batch, 5, from); err != nil || !ok || got != want {
			t.Errorf("from %d: %+v, %t, %v", from, got, ok, err)
		}
	}
	if _, ok, _ := lookup.OffsetForTimestamp(batch, 5, 13); ok {
		t.Error("a record is found behind the batch")
	}
}

func TestOF04TheMaxTimestampIsAtTheFirstRecordThatHasIt(t *testing.T) {
	var lookup Lookup
	for _, codec := range allCodecs {
		for kind, want := range map[TimestampType]TimestampOffset{CreateTime: {11, 3}, LogAppendTime: {10, 3}} {
			got, ok, err := lookup.MaxTimestamp(batchAt(codec, kind, 10, 1, 3, 2, 3), 0)
			if err != nil || !ok || got != want {
				t.Errorf("%s %s: %+v, %t, %v", codec, kind, got, ok, err)
			}
		}
	}
	if got, ok, err := lookup.MaxTimestamp(assemble(t, None, 0, nil), 0); ok || err != nil {
		t.Errorf("an empty batch: %+v, %v", got, err)
	}
	if got, ok, err := lookup.OffsetForTimestamp(batchAt(None, LogAppendTime, 10, 1, 3), 3, 11); !ok || got.Offset != 11 {
		t.Errorf("log append time from 11: %+v, %v", got, err)
	}
}

func TestALookUpInDamagedRecordsIsAnError(t *testing.T) {
	var lookup Lookup
	for _, codec := range allCodecs {
		batch := assemble(t, codec, 2, rawRecords(rawRecord{}))
		var corrupt *CorruptError
		if _, _, err := lookup.MaxTimestamp(batch, 0); !errors.As(err, &corrupt) {
			t.Errorf("%s with a record too few: %v", codec, err)
		}
		if codec == None {
			continue
		}
		clear(batch.Records())
		if _, _, err := lookup.OffsetForTimestamp(batch, 0, 0); !errors.As(err, &corrupt) {
			t.Errorf("%s of zeros: %v", codec, err)
		}
	}
}

func TestWhatIsNoEndMarkerIsToldApart(t *testing.T) {
	control := PlainProducer()
	control.Control = true
	batch := func(key, value []byte) Batch {
		builder := NewBuilder(control)
		builder.Append(0, key, value)
		return builder.Build()
	}
	leaderChange := batch([]byte{0, 0, 0, 2}, []byte{0})
	if kind, err := leaderChange.ControlType(); err != nil || kind != 2 || kind.String() != "control type 2" {
		t.Errorf("%s, %v", kind, err)
	}
	if _, ok, err := leaderChange.EndMarker(); ok || err != nil {
		t.Errorf("a leader change ends a transaction: %v", err)
	}
	damaged := batch([]byte{0, 0, 0, 1}, make([]byte, 6))
	damaged[atRecords] = 0x7e
	for name, b := range map[string]Batch{
		"no control batch":       build(t),
		"a short key":            batch([]byte{0, 0, 0}, nil),
		"no key":                 batch(nil, nil),
		"a marker with no epoch": batch([]byte{0, 0, 0, 1}, []byte{0, 0}),
		"no records":             assemble(t, None, 0, nil),
		"damaged records":        damaged,
	} {
		var corrupt *CorruptError
		if _, _, err := b.EndMarker(); !errors.As(err, &corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
