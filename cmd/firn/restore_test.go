package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	node "github.com/firnlog/firn"
)

func TestARestoreSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	store := "file://" + filepath.Join(dir, "store")
	used := filepath.Join(dir, "used")
	if err := os.MkdirAll(filepath.Join(used, "metadata", "raft"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args   string
		status int
		want   string
	}{
		{"restore --store " + store + " --data-dir " + filepath.Join(dir, "new"), exitFailed, "there is no cluster in this store"},
		{"restore --store " + store + " --data-dir " + used, exitFailed, "holds data"},
		{"restore --store " + store + " --cluster 00112233445566778899aabbccddeeff --data-dir " + filepath.Join(dir, "new"),
			exitFailed, "there is no checkpoint"},
		{"restore --cluster x", exitUsage, "--cluster"},
		{"restore --take-over x", exitUsage, "--take-over"},
		{"restore topic", exitUsage, "firn restore"},
		{"restore --store ftp://x --data-dir " + filepath.Join(dir, "new"), exitFailed, "not the URL of an object store"},
	} {
		got := firn(t, "", strings.Fields(test.args)...)
		if got.status != test.status || !strings.Contains(got.err, test.want) {
			t.Errorf("%s: status %d, %q; want %d, %q", test.args, got.status, got.err, test.status, test.want)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "new")); err == nil {
		t.Errorf("what has failed has left %v", entries)
	}
}

func TestARestoreIsReported(t *testing.T) {
	report := &node.RestoreReport{
		From: "aa", Cluster: "bb", CheckpointAt: "2026-01-02T03:04:05Z", Checkpoint: 77, Damaged: []string{"x is damaged"},
		Topics: []node.RestoredTopic{
			{Name: "events", Tiered: true, Partitions: []node.RestoredPartition{
				{Start: 10, End: 50, Segments: 3, Bytes: 2048, Found: 2, Damaged: []string{"y is damaged"}},
				{Partition: 1, Start: 7, End: 7},
			}},
			{Name: "local", Partitions: []node.RestoredPartition{{}}},
		},
		Groups: 1, Offsets: 2, NotCommitted: []string{"g: has members"}, Seconds: 1.25,
		Clamps: []node.RestoreClamp{{Group: "g", Topic: "events", Committed: 60, Restored: 50}},
	}
	var out bytes.Buffer
	if err := (*restoreResult)(report).writeText(&out); err != nil {
		t.Fatal(err)
	}
	want := `Restored 2 topics of cluster aa, as of the checkpoint of 2026-01-02T03:04:05Z (index 77) and what was uploaded since.
A newer checkpoint was passed over: x is damaged.

TOPIC   PARTITION  OFFSETS            SEGMENTS  BYTES    NEWER THAN CHECKPOINT
events  0          10–50              3         2.0 KiB  2
events  1          none, from 7 on    0         0 B      0
local   0          not in the bucket  0         0 B      0
events-0: y is damaged.

2 committed offsets of 1 group.
1 offset past the end of what comes back:
GROUP  TOPIC   PARTITION  COMMITTED  MOVED BACK TO
g      events  0          60         50
Not committed: g: has members.

It is cluster bb now, made in 1.2 s: start it with ` + "`firn serve`" + ` and the same settings.
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
	var back map[string]any
	data, err := json.Marshal((*restoreResult)(report))
	if err != nil || json.Unmarshal(data, &back) != nil || back["clamps"].([]any)[0].(map[string]any)["restored_offset"] != 50.0 {
		t.Errorf("as JSON: %s, %v", data, err)
	}
}
