package metastore

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
)

func TestRaftSpeaksThroughTheStructuredLog(t *testing.T) {
	var out strings.Builder
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	logger := raftLogger{logger: slog.New(handler)}
	named := logger.Named("raft").With("peer", raft.Leader)
	named.Info("entering", "state", raft.Follower)
	named.Warn("careful", "error", io.EOF, "servers", []any{"%+v", 1})
	named.StandardLogger(nil).Print("plain")
	named.Trace("tracing")
	want := `level=DEBUG msg="raft: entering" peer=Leader state=Follower
level=WARN msg="raft: careful" peer=Leader error=EOF servers="[%+v 1]"
level=DEBUG msg="raft: plain" peer=Leader
level=DEBUG msg="raft: tracing" peer=Leader
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	if !named.IsWarn() || !named.IsDebug() || named.IsTrace() || named.Name() != "raft" || len(named.ImpliedArgs()) != 2 {
		t.Error("the logger describes itself wrongly")
	}
}
