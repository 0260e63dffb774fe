package upload

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// progressEvery is how often an upload that takes its time is told of: one that is through before is nobody's worry.
const progressEvery = 30 * time.Second

// watch follows one upload, so that nobody has to wonder where it hangs (a copy that reports neither success nor
// failure keeps its partition on local disk for ever).
type watch struct {
	logger *slog.Logger
	key    string
	size   int64
	begun  time.Time
	sent   atomic.Int64 // bytes, those sent again included
	told   int64        // of sent, the last time
}

func newWatch(logger *slog.Logger, key string, size int64) *watch {
	return &watch{logger: logger, key: key, size: size, begun: time.Now()}
}

// tell logs how far the upload has come.
func (w *watch) tell() {
	sent := w.sent.Load()
	attributes := []any{"key", w.key, "bytes", w.size, "sent", sent, "for", time.Since(w.begun).Round(time.Second)}
	if sent == w.told {
		w.logger.Warn("an upload does not move", attributes...)
	} else {
		w.logger.Info("an upload is under way", attributes...)
	}
	w.told = sent
}
