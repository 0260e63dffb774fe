package record

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firnlog/firn/internal/kafka"
)

// seed adds all golden files and all that the tables think is wrong.
func seed(f *testing.F) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".golden"); ok {
			f.Add(readGolden(f, filepath.Base(name)))
		}
	}
	for _, encoded := range malformedRecords() {
		for _, codec := range allCodecs {
			f.Add([]byte(assemble(f, codec, 2, encoded)))
		}
	}
}

// fuzzMaxAllocated is what a batch may cost besides a multiple of its size: the tables and windows of the codecs, most
// of all zstd's.
const fuzzMaxAllocated = 32 << 20

func FuzzNext(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for rest := data; len(rest) > 0; {
			batch, next, err := Next(rest)
			if err != nil {
				var corrupt *CorruptError
				if !errors.Is(err, ErrShort) && !errors.As(err, &corrupt) || len(next) != len(rest) {
					t.Fatalf("%v, and %d of %d bytes remain", err, len(next), len(rest))
				}
				return
			}
			if len(batch) < MinBatchSize || len(batch)+len(next) != len(rest) || batch.Size() != len(batch) {
				t.Fatalf("a batch of %d bytes, and %d of %d remain", len(batch), len(next), len(rest))
			}
			_ = batch.VerifyCRC()
			_ = batch.String()
			_, _, _ = batch.EndMarker()
			rest = next
		}
	})
}

// FuzzValidate makes the checksum right, so that what lies behind it is reached, and holds accepted batches to what
// acceptance promises: every reader reads them.
func FuzzValidate(f *testing.F) {
	seed(f)
	validator := NewValidator()
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.Clone(data)
		if batch, rest, err := Next(data); err == nil && len(rest) == 0 {
			batch.updateCRC()
		}
		opts := AnyOptions()
		opts.Now, opts.RequireKeys = 2000, len(data)%2 == 0
		if len(data)%3 == 0 {
			opts.Target = Recode(LZ4, DefaultLevel)
		}
		batch, summary, err := validator.Validate(data, opts)
		if err != nil {
			if code := kafka.CodeOf(err); code == kafka.UnknownServerError || batch != nil {
				t.Fatalf("%v", err)
			}
			return
		}
		checkAccepted(t, batch, summary)
		again, second, err := validator.Validate(bytes.Clone(batch), opts)
		second.Rewritten = summary.Rewritten
		if err != nil || second != summary || !bytes.Equal(again, batch) {
			t.Fatalf("accepted, but not again: %+v, then %+v, %v", summary, second, err)
		}
	})
}

func checkAccepted(t *testing.T, batch Batch, summary Summary) {
	t.Helper()
	if err := batch.VerifyCRC(); err != nil || batch.Size() != len(batch) || summary.Size != len(batch) {
		t.Fatalf("%s: %+v, %v", batch, summary, err)
	}
	it := Iterator{MaxDecompressed: 64 << 20}
	if it.Reset(batch) != nil {
		return // larger than a test wants to hold
	}
	records, maxTimestamp := int32(0), NoTimestamp
	for it.Next() {
		if it.Offset() != int64(records) {
			t.Fatalf("record %d has offset %d", records, it.Offset())
		}
		maxTimestamp = max(maxTimestamp, it.Timestamp())
		records++
	}
	if it.Err() != nil || records != summary.Count || maxTimestamp != batch.MaxTimestamp() {
		t.Fatalf("%d records up to %d, %v: %+v", records, maxTimestamp, it.Err(), summary)
	}
}

// FuzzIterate does not trust the log either: no panic, and no memory but in proportion.
func FuzzIterate(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		batch, _, err := Next(data)
		if err != nil {
			return
		}
		it := Iterator{MaxDecompressed: 1 << 20}
		var lookup Lookup
		used := allocated(func() {
			if err := it.Reset(batch); err == nil {
				for it.Next() {
					for key, value := range it.Record().Headers() {
						_, _ = key, value
					}
				}
			}
			_, _, _ = lookup.MaxTimestamp(batch, 0)
		})
		if used > fuzzMaxAllocated+uint64(len(data))*lz4MaxRatio {
			t.Fatalf("%d bytes for a batch of %d", used, len(batch))
		}
	})
}
