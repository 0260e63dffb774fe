package metastore

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// raftLogger hands raft's messages to the node's structured log. Raft tells at "info" about every step of an election
// and of a snapshot; the store itself logs the few of them that an operator wants, so these become debug.
type raftLogger struct {
	logger *slog.Logger
	args   []any
	name   string
}

var _ hclog.Logger = raftLogger{}

func (l raftLogger) Log(level hclog.Level, message string, args ...any) {
	target := slogLevel(level)
	if !l.logger.Enabled(context.Background(), target) {
		return
	}
	l.logger.Log(context.Background(), target, "raft: "+message, plain(args)...)
}

func slogLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// plain turns raft's values into text where a log handler would print their insides.
func plain(args []any) []any {
	printable := make([]any, len(args))
	for i, arg := range args {
		switch value := arg.(type) {
		case hclog.Format:
			if format, ok := value[0].(string); ok {
				printable[i] = fmt.Sprintf(format, value[1:]...)
			}
		case error:
			printable[i] = value
		case fmt.Stringer:
			printable[i] = value.String()
		default:
			printable[i] = arg
		}
	}
	return printable
}

func (l raftLogger) Trace(message string, args ...any) { l.Log(hclog.Trace, message, args...) }
func (l raftLogger) Debug(message string, args ...any) { l.Log(hclog.Debug, message, args...) }
func (l raftLogger) Info(message string, args ...any)  { l.Log(hclog.Info, message, args...) }
func (l raftLogger) Warn(message string, args ...any)  { l.Log(hclog.Warn, message, args...) }
func (l raftLogger) Error(message string, args ...any) { l.Log(hclog.Error, message, args...) }

func (l raftLogger) enabled(level hclog.Level) bool {
	return l.logger.Enabled(context.Background(), slogLevel(level))
}

func (l raftLogger) IsTrace() bool { return false }
func (l raftLogger) IsDebug() bool { return l.enabled(hclog.Debug) }
func (l raftLogger) IsInfo() bool  { return l.enabled(hclog.Info) }
func (l raftLogger) IsWarn() bool  { return l.enabled(hclog.Warn) }
func (l raftLogger) IsError() bool { return l.enabled(hclog.Error) }

func (l raftLogger) ImpliedArgs() []any { return l.args }

func (l raftLogger) With(args ...any) hclog.Logger {
	return raftLogger{
		logger: l.logger.With(plain(args)...), args: append(l.args[:len(l.args):len(l.args)], args...), name: l.name,
	}
}

func (l raftLogger) Name() string { return l.name }

func (l raftLogger) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

func (l raftLogger) ResetNamed(name string) hclog.Logger {
	l.name = name
	return l
}

// SetLevel does nothing: the node's handler decides what is printed.
func (l raftLogger) SetLevel(hclog.Level) {}

func (l raftLogger) GetLevel() hclog.Level { return hclog.NoLevel }

func (l raftLogger) StandardLogger(options *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(options), "", 0)
}

func (l raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{l} }

// lineWriter logs what is written to it.
type lineWriter struct{ logger raftLogger }

func (w lineWriter) Write(line []byte) (int, error) {
	w.logger.Debug(strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}
