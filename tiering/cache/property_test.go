package cache

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/internal/vfs"
)

// checkInBubble runs one check in a bubble. rapid ends a check by a panic, which must not cross the bubble's border.
func checkInBubble(t *testing.T, check func(t *testing.T)) {
	var caught any
	synctest.Test(t, func(t *testing.T) {
		defer func() { caught = recover() }()
		check(t)
	})
	if caught != nil {
		panic(caught)
	}
}

// Whatever happens to the disk, what the cache gives is what was put there, the bound holds, and the books are true.
func TestTheCacheNeverLiesAndNeverGrowsBeyondItsBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		checkInBubble(t, func(*testing.T) {
			n := newNode(func(o *Options) { o.Bytes = int64(rapid.IntRange(1, 5).Draw(rt, "parts")) * partBytes })
			n.start()
			defer func() { n.stop() }()
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				synctest.Wait()
				n = randomStep(rt, n)
				synctest.Wait()
				if err := n.check(); err != nil {
					rt.Fatal(err)
				}
			}
		})
	})
}

func randomStep(rt *rapid.T, n *node) *node {
	switch rapid.IntRange(0, 11).Draw(rt, "step") {
	case 0:
		n.stop()
		n = n.crashed(rapid.Uint64().Draw(rt, "seed"))
		n.start()
	case 1:
		n.stop()
		n.start()
	case 2:
		n.files.SetFreeBytes(int64(rapid.IntRange(0, 3).Draw(rt, "free")) * partBytes)
	case 3:
		n.files.SetFreeBytes(math.MaxInt64 / 2)
		time.Sleep(offFor)
	default:
		// The size of a part is one for ever, too.
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"}).Draw(rt, "id")
		if _, err := n.want(idOf(name), partBytes/2+int(name[0])*kib); err != nil {
			rt.Fatalf("%s: %v", name, err)
		}
	}
	return n
}

// A crash at any step of filling and displacing leaves a cache that works.
func TestACrashAtAnyStepLeavesACacheThatWorks(t *testing.T) {
	errCrash := errors.New("crashed")
	steps := 0
	for at := 1; ; at++ {
		reached := false
		synctest.Test(t, func(t *testing.T) {
			n := newNode(func(o *Options) { o.Bytes = 2 * partBytes })
			var left *node
			count := 0
			n.options.FS = vfs.NewFaulty(n.files, func(op vfs.Op) error {
				if !op.Kind.Changes() {
					return nil
				}
				if count++; count == at {
					left = n.crashed(uint64(at))
				}
				if count >= at {
					return errCrash
				}
				return nil
			})
			n.start()
			synctest.Wait()
			for range 3 {
				for _, name := range []string{"a", "b", "c"} {
					for range 2 {
						if _, err := n.want(idOf(name), partBytes); err != nil {
							t.Fatalf("step %d: %v", at, err)
						}
					}
				}
			}
			n.stop()
			steps = max(steps, count)
			if reached = left != nil; !reached {
				return
			}
			left.options.FS = nil
			left.start()
			synctest.Wait()
			if err := left.check(); err != nil {
				t.Errorf("after a crash at step %d: %v", at, err)
			}
			for _, name := range []string{"a", "a", "b", "b", "c", "c"} {
				if _, err := left.want(idOf(name), partBytes); err != nil {
					t.Errorf("after a crash at step %d: %v", at, err)
				}
			}
			if err := left.check(); err != nil {
				t.Errorf("after a crash at step %d, and some reads: %v", at, err)
			}
			left.stop()
		})
		if !reached {
			break
		}
	}
	if steps < 15 {
		t.Errorf("only %d steps", steps)
	}
}

// Many at once: each gets what it wants.
func TestManyReadersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.start()
		defer n.stop()
		synctest.Wait()
		var readers sync.WaitGroup
		for i := range uint64(8) {
			readers.Go(func() {
				random := rand.New(rand.NewPCG(i, 1))
				for range 200 {
					if _, err := n.want(idOf(fmt.Sprint(random.IntN(10))), partBytes); err != nil {
						t.Error(err)
					}
				}
			})
		}
		readers.Wait()
		if err := n.check(); err != nil {
			t.Error(err)
		}
	})
}

// How much of a working set survives a scan, and what a loop that is too long for the cache gets out of it: the figures
// that the rule of admission is for.
func TestAdmissionIsWorthIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 20
		n := newNode(func(o *Options) { o.Bytes = room * partBytes })
		n.start()
		defer n.stop()
		synctest.Wait()
		pass := func(prefix string, parts int) (hits int) {
			for i := range parts {
				how, err := n.want(idOf(fmt.Sprint(prefix, i)), partBytes)
				must(t, err)
				if how == "from the disk" {
					hits++
				}
			}
			return hits
		}
		pass("set", room)
		pass("set", room)
		if hits := pass("set", room); hits != room {
			t.Errorf("a working set that fits: %d of %d", hits, room)
		}
		before := n.metric(t, "fills_total")
		pass("scan", 50*room)
		if fills := n.metric(t, "fills_total") - before; fills != 0 {
			t.Errorf("a scan has written %v parts", fills)
		}
		if hits := pass("set", room); hits != room {
			t.Errorf("the working set after a scan: %d of %d", hits, room)
		}
		// Another set takes over, as it is wanted and the first one is not.
		pass("other", room)
		pass("other", room)
		if hits := pass("other", room); hits < room*8/10 {
			t.Errorf("another set: %d of %d", hits, room)
		}
		// One and a half times what there is room for, again and again: least recently used would hit nothing.
		for range 4 {
			pass("loop", room*3/2)
		}
		if hits := pass("loop", room*3/2); hits < room*8/10 {
			t.Errorf("a loop that does not fit: %d of %d", hits, room*3/2)
		}
	})
}
