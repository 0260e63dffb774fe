package replica

import (
	"testing"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/config"
)

func TestTheTopicChoosesCodecAndLevel(t *testing.T) {
	levels := map[string]string{
		"compression.gzip.level": "2", "compression.lz4.level": "17", "compression.zstd.level": "-7",
	}
	for compression, want := range map[string]record.Target{
		"producer":     record.KeepCodec(),
		"uncompressed": record.Recode(record.None, record.DefaultLevel),
		"gzip":         record.Recode(record.Gzip, 2),
		"snappy":       record.Recode(record.Snappy, record.DefaultLevel),
		"lz4":          record.Recode(record.LZ4, 17),
		"zstd":         record.Recode(record.Zstd, -7),
	} {
		broker := func(name string) (string, bool) {
			value, ok := levels[name] // the topic inherits them
			return value, ok
		}
		cfg, err := config.ResolveTopic(map[string]string{"compression.type": compression}, broker)
		if err != nil {
			t.Fatal(err)
		}
		if got := target(&cfg); got != want {
			t.Errorf("%s: %+v, want %+v", compression, got, want)
		}
	}
}
