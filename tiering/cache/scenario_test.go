package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/firnlog/firn/internal/vfs"
)

// TestScenarios runs scripts. Each has a bubble of its own, in which time only passes by "sleep".
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{t: t, node: newNode(), held: map[string]*Handle{}}
			datadriven.RunTest(t, path, s.run)
			s.node.stop()
		})
	})
}

type script struct {
	t    *testing.T
	node *node
	held map[string]*Handle
	fail error // of each write to a file
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	out := s.verb(d)
	synctest.Wait()
	return out
}

func (s *script) verb(d *datadriven.TestData) string {
	n := s.node
	switch d.Cmd {
	case "start": // parts=4 leave=0: so many parts have room, and so many parts' bytes stay free
		n.options.Bytes = number(d, "parts", 4) * partBytes
		n.options.LeaveBytes = number(d, "leave", 0) * partBytes
		n.options.FS = vfs.NewFaulty(n.files, func(op vfs.Op) error {
			if op.Kind == vfs.OpWrite {
				return s.fail
			}
			return nil
		})
		n.start()
	case "restart":
		n.stop()
		n.options.Bytes = number(d, "parts", n.options.Bytes/partBytes) * partBytes
		n.start()
	case "crash":
		n.stop()
		s.node = n.crashed(uint64(number(d, "seed", 1)))
		s.node.options.FS = nil
		s.node.start()
	case "want": // A B C: one after the other
		var out []string
		for _, arg := range d.CmdArgs {
			how, err := n.want(idOf(arg.Key), partBytes)
			if err != nil {
				how = err.Error()
			}
			out = append(out, arg.Key+" "+how)
		}
		return strings.Join(out, "\n")
	case "hold":
		name := d.CmdArgs[0].Key
		s.held[name] = n.cache.Get(idOf(name))
		if err := s.held[name].Open(); err != nil {
			return err.Error()
		}
	case "release":
		s.held[d.CmdArgs[0].Key].Release()
	case "damage", "cut", "lose":
		s.harm(d.Cmd, d.CmdArgs[0].Key)
	case "foreign": // the directory is replaced by that of another cache
		if err := vfs.WriteFileAtomic(n.files, n.options.Dir+"/"+ownerName, []byte("somebody else\n")); err != nil {
			return err.Error()
		}
	case "free": // parts=N: so much is free on the disk
		n.files.SetFreeBytes(number(d, "parts", math.MaxInt64/partBytes) * partBytes)
	case "failing": // io|full
		s.fail = map[string]error{"io": syscall.EIO, "full": syscall.ENOSPC}[d.CmdArgs[0].Key]
	case "mended":
		s.fail = nil
	case "sleep":
		wait, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			return err.Error()
		}
		time.Sleep(wait)
	case "state":
		return s.state()
	default:
		s.t.Fatalf("%s: %q is no verb", d.Pos, d.Cmd)
	}
	return ""
}

func number(d *datadriven.TestData, name string, otherwise int64) int64 {
	for _, arg := range d.CmdArgs {
		if arg.Key == name {
			n, err := strconv.ParseInt(arg.Vals[0], 10, 64)
			if err != nil {
				panic(err)
			}
			return n
		}
	}
	return otherwise
}

// harm changes the file of a part.
func (s *script) harm(how, name string) {
	n := s.node
	n.cache.mu.Lock()
	file := n.cache.file(n.cache.known[idOf(name)].number)
	n.cache.mu.Unlock()
	if how == "lose" {
		must(s.t, n.files.Remove(file))
		return
	}
	open, err := n.files.OpenReadWrite(file)
	must(s.t, err)
	if how == "cut" {
		must(s.t, open.Truncate(partBytes/2))
	} else {
		_, err = open.WriteAt([]byte("damage"), partBytes/3)
		must(s.t, err)
	}
	must(s.t, open.Close())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// state prints what is kept, the least recently used first, what is on the disk, and whether the cache is off.
func (s *script) state() string {
	n, out := s.node, strings.Builder{}
	n.cache.mu.Lock()
	for at := n.cache.used.Front(); at != nil; at = at.Next() {
		e := at.Value.(*entry)
		fmt.Fprintf(&out, "%s ", strings.TrimRight(string(e.id.Upload[:]), "\x00"))
	}
	bytes := n.cache.bytes
	n.cache.mu.Unlock()
	files, _, err := n.onDisk()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err.Error()
	}
	fmt.Fprintf(&out, "(room for %d taken, %d files", bytes/partBytes, files)
	if n.metric(s.t, "off") == 1 {
		out.WriteString(", off")
	}
	return out.String() + ")"
}
