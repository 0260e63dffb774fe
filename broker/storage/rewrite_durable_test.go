package storage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/firnlog/firn/internal/vfs"
)

// What a rewrite has removed may come back in a power cut as long as the note of it is there, and no longer.
func TestPowerCutAfterTheNoteOfARewriteIsGone(t *testing.T) {
	bad := map[string]int{}
	for seed := range 200 {
		rng := rand.New(rand.NewPCG(uint64(seed), 9))
		mem, store := vfs.NewMem(), newMemoryStore()
		d := &disk{fs: mem, store: store}
		m, l := d.open(t, rewriteConfig)
		fillForRewrite(t, l, 20)
		if err := m.checkpoint(); err != nil {
			t.Fatal(err)
		}
		old := basesFrom(t, l, 0)
		tail := basesFrom(t, l, l.Segments()[len(l.Segments())-1].BaseOffset)
		want, err := rewriteKeeping(t, l, 3, everyOther)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, tail...)
		if err := l.env.syncStore(); err != nil {
			t.Fatal(err)
		}
		crashed := &disk{fs: mem.CrashClone(rng), store: store.crashClone(rng)}
		m2, result := crashed.start(t, rewriteConfig)
		if len(result.Offline) > 0 {
			bad[fmt.Sprintf("offline: %v", result.Offline[0].Err)]++
		} else if got := basesFrom(t, m2.Logs()[0], 0); slices.Equal(got, old) {
			bad["old"]++
		} else if !slices.Equal(got, want) {
			bad[fmt.Sprintf("mix: %v instead of %v (end %d)", got, want, m2.Logs()[0].EndOffset())]++
		}
		_ = m2.Close()
		_ = m.Close()
	}
	for k, n := range bad {
		t.Errorf("%d × %s", n, k)
	}
}
