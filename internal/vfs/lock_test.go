package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// lockEnvironment makes the test binary a process that takes a lock, says so, and waits for its end.
const lockEnvironment = "FIRN_TEST_LOCK"

func TestMain(m *testing.M) {
	if name := os.Getenv(lockEnvironment); name != "" {
		if _, err := OS().Lock(name); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or the test is gone
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestLockIsReleasedByTheDeathOfItsHolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), lockEnvironment+"="+name)
	stdin, err := holder.StdinPipe()
	must(t, err)
	defer stdin.Close()
	stdout, err := holder.StdoutPipe()
	must(t, err)
	must(t, holder.Start())
	defer holder.Wait() // it is killed
	defer holder.Process.Kill()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the holder says %q, %v", line, err)
	}
	if _, err := OS().Lock(name); !errors.Is(err, ErrLocked) {
		t.Fatalf("locked while another process has it: %v", err)
	}
	must(t, holder.Process.Kill())
	_ = holder.Wait()
	lock, err := OS().Lock(name)
	must(t, err)
	must(t, lock.Close())
}
