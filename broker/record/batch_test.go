package record

import "testing"

func TestBuiltBatchPassesItsOwnChecks(t *testing.T) {
	builder := NewBuilder(PlainProducer())
	builder.Append(1000, []byte("key"), []byte("value"), Header{Key: "h", Value: nil})
	builder.Append(3000, nil, nil)
	builder.Append(2000, []byte{}, []byte{})
	batch, summary, err := NewValidator().Validate(builder.Build(), AnyOptions())
	if err != nil {
		t.Fatal(err)
	}
	if summary.Count != 3 || summary.MaxTimestamp != 3000 || summary.MaxTimestampOffsetDelta != 1 {
		t.Fatalf("summary is %+v", summary)
	}
	if batch.LastOffset() != 2 || batch.NextOffset() != 3 || batch.Size() != len(batch) {
		t.Fatalf("header is %s", batch)
	}
}
