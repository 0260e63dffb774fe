package state

import (
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// A power cut at any step of the making of a database leaves what the next start can make or open.
func TestAPowerCutWhileADatabaseIsMade(t *testing.T) {
	const dir = "data/metadata/state"
	for _, kept := range []int{0, 50, 100} {
		cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rand.New(rand.NewPCG(1, uint64(kept)))}
		steps := 0
		for cut, over := 0, false; !over; cut++ {
			mem := vfs.NewCrashableMem()
			var left *vfs.MemFS
			steps = 0
			watched := errorfs.Wrap(mem, errorfs.InjectorFunc(func(errorfs.Op) error {
				if steps == cut {
					left = mem.CrashClone(cfg)
				}
				steps++
				return nil
			}))
			if err := create(Options{FS: watched, Dir: dir, Logger: slog.New(slog.DiscardHandler)}); err != nil {
				t.Fatal(err)
			}
			if over = left == nil; over {
				left = mem.CrashClone(cfg)
				if _, err := left.Stat(dir); err != nil {
					t.Errorf("the database is not durable: %v", err)
				}
			}
			db, err := Open(Options{FS: left, Dir: dir, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatalf("after step %d: %v", cut, err)
			}
			set(t, db.Space(SpaceStorage), "a")
			closeDB(t, db)
		}
		if steps < 20 {
			t.Errorf("a database is made in %d steps: were they watched?", steps)
		}
	}
}
