package demo

import (
	"fmt"
	"io"
)

// WriteText prints what was shown and where to go next.
func (s *Summary) WriteText(w io.Writer) error {
	mebibytes := func(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
	_, err := fmt.Fprintf(w, `
  events    %d (%s), all the same each time they were read
  bucket    %s in %d objects, offsets 0–%d
  local     %s, offsets %d–%d
  restored  offsets 0–%d in %.2f s, from the bucket alone
  time      %.1f s in all; produce %.1f s, all in the bucket after %.1f s, replay %.2f s (%.0f events/s)
`, s.Events, mebibytes(s.EventBytes), mebibytes(s.RemoteBytes), s.Objects, s.RemoteEnd-1,
		mebibytes(s.LocalBytes), s.LocalStart, s.Events-1, s.RestoredEnd-1, s.RestoreSeconds,
		s.Seconds, s.ProduceSeconds, s.TierSeconds, s.ReplaySeconds, s.ReplayRate)
	if err != nil {
		return err
	}
	serve := "firn serve"
	if s.Dir != "" {
		serve += " --data-dir " + s.Dir
	}
	_, err = fmt.Fprintf(w, `
Where to go next (make build leaves the program in bin/):
  %s        # a broker on 127.0.0.1:9092, for any Kafka client
  firn topic create events -p 4 -c remote.storage.enable=true
  kcat -b 127.0.0.1:9092 -t events -P -l FILE
  kcat -b 127.0.0.1:9092 -t events -C -o beginning -e
  python3 -c 'from confluent_kafka import Producer
  p = Producer({"bootstrap.servers": "127.0.0.1:9092"}); p.produce("events", b"hello"); p.flush()'
  firn consume events -f json
  firn tier status
`, serve)
	return err
}
