//go:build integration

package process

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Session is a program that runs beside the test, is told lines, and tells lines.
type Session struct {
	t       testing.TB
	running *running
	stdin   io.WriteCloser
	stderr  *lockedBuffer
}

// Start runs a program until it ends, is killed, or the test is over. Each line that it prints is handed to hear, one
// after the other; hear ends when the context does that it is given, which is when the test is over.
func (c Command) Start(t testing.TB, hear func(ctx context.Context, line []byte)) *Session {
	t.Helper()
	cmd := exec.Command(c.Path, c.Args...)
	s := &Session{t: t, stderr: &lockedBuffer{}}
	cmd.Dir, cmd.Env, cmd.Stderr = c.Dir, append(os.Environ(), c.Env...), s.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	// A pipe of the test's own: what a program says last is read although it has ended.
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, s.stdin = writer, stdin
	s.running = start(t, cmd)
	_ = writer.Close()
	read := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(read)
		defer reader.Close()
		lines := bufio.NewScanner(reader)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			hear(ctx, lines.Bytes())
		}
	}()
	t.Cleanup(func() {
		cancel()
		s.Kill()
		<-read
		if t.Failed() {
			t.Logf("%s %q printed to stderr:\n%s", c.Path, c.Args, s.stderr)
		}
	})
	return s
}

// Tell writes a line to the program.
func (s *Session) Tell(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.stdin, line+"\n"); err != nil {
		s.t.Fatalf("%s does not listen: %v\n%s", s.running.cmd.Path, err, s.stderr)
	}
}

// Kill ends the program with SIGKILL.
func (s *Session) Kill() { s.running.kill() }

// Interrupt asks the program by SIGTERM to end, and waits until it has.
func (s *Session) Interrupt() {
	s.t.Helper()
	if status := s.running.terminate(s.t); status != 0 {
		s.t.Errorf("%s ended with status %d\n%s", s.running.cmd.Path, status, s.stderr)
	}
}

// End tells the program by the end of its input that it is no longer needed, and waits until it has ended well.
func (s *Session) End() {
	s.t.Helper()
	_ = s.stdin.Close()
	select {
	case <-s.running.done:
	case <-time.After(patience):
		s.t.Fatalf("%s does not end\n%s", s.running.cmd.Path, s.stderr)
	}
	if status := s.running.cmd.ProcessState.ExitCode(); status != 0 {
		s.t.Errorf("%s ended with status %d\n%s", s.running.cmd.Path, status, s.stderr)
	}
}

// lockedBuffer is what a program prints, which may be read meanwhile.
type lockedBuffer struct {
	mu   sync.Mutex // guards the field below
	text bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
