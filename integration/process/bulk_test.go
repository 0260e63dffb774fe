//go:build integration

package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestABulkReadOutlivesItsBroker: once the broker has pinned the objects nothing more is asked of it, so that its death
// is not noticed. Without a broker the same comes from the newest checkpoint.
func TestABulkReadOutlivesItsBroker(t *testing.T) {
	s3 := ServeS3(t, testBucket)
	store := s3.URL(testBucket, "firn")
	node := Serve(t, Options{Env: s3.Environment(), Set: []string{
		"firn.object.store=" + store, "log.retention.check.interval.ms=200", "remote.log.manager.task.interval.ms=200",
		"firn.tier.checkpoint.interval.ms=1000",
	}})
	node.CreateTopic("events", 1, "segment.bytes=1048576", "remote.storage.enable=true", "local.retention.ms=1")
	load := startLoader(t, node, "events", kgo.NoCompression())
	load.waitFor(20_000)
	load.finish()
	sunk(t, node, "events")
	end := tierStatus(t, node, "events").End
	want := node.CLI("consume", "events", "-o", fmt.Sprintf(":%d", end), "-f", "json").Output(t)
	load.client.Close()

	cmd, stderr, out := bulkRead(t, s3, store, node.HTTP)
	_ = firstLine(t, out, stderr)
	if err := out.Close(); err != nil { // as `| head` does
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(stderr.String(), "broken pipe") {
		t.Errorf("an output that nobody reads: %v, said %q", err, stderr)
	}
	if _, pins := node.Get("/api/v1/pins"); pins != "{\"pins\":[]}\n" {
		t.Errorf("an output that nobody reads has left the pins %s", pins)
	}

	cmd, stderr, out = bulkRead(t, s3, store, node.HTTP)
	first := firstLine(t, out, stderr)
	node.Kill()
	rest, err := io.ReadAll(out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, stderr.String())
	}
	if got := first + string(rest); err != nil || got != want {
		t.Errorf("%d bytes instead of %d, %v", len(got), len(want), err)
	}
	if said := stderr.String(); !strings.Contains(said, "keeps them until the lease is over") ||
		strings.Count(want, "\n") < int(load.acked.Load()) && !strings.Contains(said, "not in the bucket yet") {
		t.Errorf("said %q", said)
	}

	testWithoutBroker(t, s3, store, want, end)
}

// testWithoutBroker reads the same from the newest checkpoint, and checks all there is in the bucket.
func testWithoutBroker(t *testing.T, s3 *S3, store, want string, end int64) {
	t.Helper()
	alone := Command{Path: Firn(t), Env: s3.Environment(),
		Args: []string{"consume", "events", "-f", "json", "--no-broker", "--from-bucket", store}}.Run(t)
	if alone.Status != 0 || alone.Stdout != want || !strings.Contains(alone.Stderr, "only the grace time") {
		t.Errorf("without a broker: status %d, %d bytes instead of %d, said %q", alone.Status, len(alone.Stdout), len(want),
			alone.Stderr)
	}
	verified := Command{Path: Firn(t), Env: s3.Environment(), Args: []string{"log", "verify", store}}.Run(t)
	if want := fmt.Sprintf(" %d records, ", end); verified.Status != 0 || !strings.Contains(verified.Stdout, want) {
		t.Errorf("verified with status %d: %s%s", verified.Status, verified.Stdout, verified.Stderr)
	}
}

// bulkRead begins to read topic "events" from the bucket. It goes on as far as its output is read: that is more than a
// pipe takes.
func bulkRead(t *testing.T, s3 *S3, store, broker string) (*exec.Cmd, *bytes.Buffer, io.ReadCloser) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, Firn(t), "consume", "events", "-f", "json", "--from-bucket", store, "--http", broker)
	cmd.Env = append(os.Environ(), s3.Environment()...)
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, stderr, out
}

// firstLine reads the first line that a command prints, byte by byte: what follows is not to be taken.
func firstLine(t *testing.T, out io.Reader, stderr *bytes.Buffer) string {
	t.Helper()
	var line []byte
	for one := make([]byte, 1); !bytes.HasSuffix(line, []byte("\n")); line = append(line, one...) {
		if _, err := out.Read(one); err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
	}
	return string(line)
}
