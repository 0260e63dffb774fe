//go:build integration

package process

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience ends what hangs; nothing here takes as long.
const patience = 2 * time.Minute

// Missing skips a test that needs what the machine does not have. Where everything has been installed (FIRN_CI=1) it
// fails instead.
func Missing(t testing.TB, what string, err error) {
	t.Helper()
	if os.Getenv("FIRN_CI") == "1" {
		t.Fatalf("%s is missing: %v", what, err)
	}
	t.Skipf("%s is missing: %v", what, err)
}

// Program is the path of a program that an environment variable names, or that lies at fallback.
func Program(t testing.TB, variable, fallback string) string {
	t.Helper()
	path, err := filepath.Abs(cmp.Or(os.Getenv(variable), fallback))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		Missing(t, variable, err)
	}
	return path
}

// Firn is the path of the built binary.
func Firn(t testing.TB) string {
	t.Helper()
	return Program(t, "FIRN_BIN", filepath.Join("..", "..", "bin", "firn"))
}

// Result is what a program that has ended leaves.
type Result struct {
	Stdout, Stderr string
	Status         int
}

// Command is a program to run to its end.
type Command struct {
	Path  string
	Args  []string
	Stdin string
	Env   []string // added to that of the test
	Dir   string
}

// Run runs a program to its end, whatever its exit status.
func (c Command) Run(t testing.TB) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stdin = c.Dir, append(os.Environ(), c.Env...), strings.NewReader(c.Stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || !exit.Exited()) {
		t.Fatalf("%s %q: %v\n%s", c.Path, c.Args, err, stderr.String())
	}
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Status: cmd.ProcessState.ExitCode()}
}

// Output runs a program that must succeed, and returns what it prints.
func (c Command) Output(t testing.TB) string {
	t.Helper()
	result := c.Run(t)
	if result.Status != 0 {
		t.Fatalf("%s %q ended with status %d:\n%s%s", c.Path, c.Args, result.Status, result.Stdout, result.Stderr)
	}
	return result.Stdout
}

// Until runs a program until it prints a line that a pattern fits, and ends it.
func (c Command) Until(t testing.TB, line *regexp.Regexp) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	program := start(t, cmd)
	defer program.kill()
	var read []string
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if line.MatchString(lines.Text()) {
			return
		}
		read = append(read, lines.Text())
	}
	t.Fatalf("%s %q ended without the line %s:\n%s", c.Path, c.Args, line, strings.Join(read, "\n"))
}

// running is a program that runs beside the test.
type running struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start runs a program until it is told to stop. It does not outlive the test.
func start(t testing.TB, cmd *exec.Cmd) *running {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		_ = cmd.Wait()
	}()
	t.Cleanup(r.kill)
	return r
}

// kill ends it the hard way.
func (r *running) kill() {
	_ = r.cmd.Process.Kill()
	<-r.done
}

// terminate asks it to stop and returns its exit status.
func (r *running) terminate(t testing.TB) int {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatalf("%s did not stop", r.cmd.Path)
	}
	return r.cmd.ProcessState.ExitCode()
}

// damage flips a bit in the middle of a file.
func damage(t testing.TB, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0x10
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
