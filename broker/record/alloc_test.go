package record

import (
	"fmt"
	"testing"
)

// request is what a producer sends: as many records of some 200 bytes as fit into size.
func request(size int, codec Codec) Batch {
	opts := PlainProducer()
	opts.Codec = codec
	builder := NewBuilder(opts)
	for i := 0; builder.Size() < size-250; i++ {
		value := fmt.Appendf(nil, `{"flight":"UA%d","origin":"EWR","dest":"ORD","tail":"N%05d","delay":%d,`+
			`"scheduled":"2013-01-%02dT%02d:00:00Z","carrier":"United Air Lines Inc.","distance":%d}`,
			i%2000, i*7919%99991, i*31%60-20, i%31+1, i%24, i*613%3000)
		builder.Append(1357034400000+int64(i), fmt.Appendf(nil, "N%05d", i*7919%99991), value)
	}
	return builder.Build()
}

func TestPlainBatchesAreCheckedWithoutAllocation(t *testing.T) {
	validator := NewValidator()
	for _, size := range []int{1 << 10, 16 << 10, 1 << 20} {
		data := []byte(request(size, None))
		for name, opts := range map[string]Options{
			"create time": AnyOptions(), "log append time": {MaxBytes: 2 << 20, TimestampLogAppend: true, Now: 1},
			"keys": {MaxBytes: 2 << 20, RequireKeys: true, Now: 1357034400000, BeforeMaxMs: 1, AfterMaxMs: 1 << 40},
		} {
			batch := append([]byte{}, data...)
			got := testing.AllocsPerRun(20, func() {
				// A batch that was stamped may not be sent again.
				copy(batch[:HeaderSize], data)
				if _, _, err := validator.Validate(batch, opts); err != nil {
					t.Fatal(err)
				}
			})
			if got != 0 {
				t.Errorf("%d bytes, %s: %v allocations", size, name, got)
			}
		}
	}
}

func TestCompressedBatchesAreCheckedWithFewAllocationsWhateverTheirSize(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget what they hold")
	}
	validator := NewValidator()
	for codec, most := range map[Codec]float64{Gzip: 1, Snappy: 1, LZ4: 1, Zstd: 2} {
		for _, size := range []int{16 << 10, 1 << 20} {
			batch := request(size, codec)
			got := testing.AllocsPerRun(20, func() {
				if _, _, err := validator.Validate(batch, AnyOptions()); err != nil {
					t.Fatal(err)
				}
			})
			if got > most {
				t.Errorf("%s, %d bytes: %v allocations", codec, size, got)
			}
		}
	}
}

func TestWalkingOverBatchesAndRecordsAllocatesNothing(t *testing.T) {
	var log []byte
	for range 10 {
		log = append(log, request(10<<10, None)...)
	}
	var it Iterator
	got := testing.AllocsPerRun(20, func() {
		for rest := log; len(rest) > 0; {
			batch, next, err := Next(rest)
			if err != nil || it.Reset(batch) != nil {
				t.Fatal(err)
			}
			for it.Next() {
				for key := range it.Record().Headers() {
					t.Fatalf("header %q", key)
				}
			}
			rest = next
		}
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, codec := range []Codec{None, LZ4, Zstd, Snappy, Gzip} {
		for _, size := range []int{16 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKiB", codec, size>>10), func(b *testing.B) {
				validator, batch := NewValidator(), request(size, codec)
				b.SetBytes(int64(size)) // of records, also where they are compressed
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := validator.Validate(batch, AnyOptions()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkValidateHeaderOnly(b *testing.B) {
	opts := AnyOptions()
	opts.HeaderOnly = true
	for _, size := range []int{16 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			validator, batch := NewValidator(), request(size, None)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := validator.Validate(batch, opts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkIterate(b *testing.B) {
	for _, codec := range []Codec{None, LZ4, Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			var it Iterator
			batch := request(1<<20, codec)
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				if err := it.Reset(batch); err != nil {
					b.Fatal(err)
				}
				for it.Next() {
				}
			}
		})
	}
}
