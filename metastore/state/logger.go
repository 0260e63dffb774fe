package state

import (
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
)

// logger hands Pebble's messages to the node's log. Pebble is chatty at "info": that is our debug.
type logger struct {
	logger *slog.Logger
	fatal  *fatalError
}

var _ pebble.Logger = logger{}

func (l logger) Infof(format string, args ...any) {
	l.logger.Debug("pebble: " + fmt.Sprintf(format, args...))
}

func (l logger) Errorf(format string, args ...any) {
	l.logger.Error("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf is called where Pebble cannot go on. It returns, and Pebble then behaves as if nothing had happened: every
// write of ours asks fatalError afterwards.
func (l logger) Fatalf(format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	l.logger.Error("pebble: " + reason)
	l.fatal.set(fmt.Errorf("%s", reason))
}

// listener reports what an operator must know and leaves out the rest.
func listener(log *slog.Logger, fatal *fatalError) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			log.Error("pebble could not flush or compact", "error", err)
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			log.Error("pebble found damaged data", "path", info.Path, "error", info.Details)
			fatal.set(info.Details)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			log.Warn("writes to the database wait for a flush", "reason", info.Reason)
		},
	}
}
