package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newTerminal opens a pseudo-terminal: what is written to the terminal can be read from the screen.
func newTerminal(t *testing.T) (terminal, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, screen
}

func onScreen(t *testing.T, screen io.Reader) string {
	t.Helper()
	buffer := make([]byte, 4096)
	n, err := screen.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return string(buffer[:n])
}

func TestColoursAreForTerminalsWhoseOwnersWantThem(t *testing.T) {
	terminal, screen := newTerminal(t)
	for _, test := range []struct {
		noColour, term string
		want           bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", test.noColour)
		t.Setenv("TERM", test.term)
		if got := hasColours(terminal); got != test.want || hasColours(&bytes.Buffer{}) {
			t.Errorf("NO_COLOR=%q TERM=%s: %v", test.noColour, test.term, got)
		}
		run(t.Context(), []string{"nonsense"}, streams{in: strings.NewReader(""), out: io.Discard, err: terminal})
		line := onScreen(t, screen)
		if coloured := strings.HasPrefix(line, colourError+"firn:"+colourEnd); coloured != test.want {
			t.Errorf("NO_COLOR=%q TERM=%s: an error is %q", test.noColour, test.term, line)
		}
	}
	if got := firn(t, "", "nonsense"); strings.Contains(got.err, "\x1b") {
		t.Errorf("an error that nobody watches is %q", got.err)
	}
}

func TestProgressIsForLongWorkOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	terminal, screen := newTerminal(t)
	start := time.Now()
	describe := func(elapsed time.Duration) string { return elapsed.String() }
	p := newProgress(terminal, start)
	p.tick(start.Add(progressDelay/2), describe) // not long yet
	p.tick(start.Add(2*time.Second), describe)
	if got := onScreen(t, screen); got != clearLine+"2s" {
		t.Errorf("first shown: %q", got)
	}
	p.tick(start.Add(2*time.Second+progressInterval/2), describe) // too soon to be read
	p.tick(start.Add(3*time.Second), describe)
	if got := onScreen(t, screen); got != clearLine+"3s" {
		t.Errorf("then shown: %q", got)
	}
	p.end()
	if got := onScreen(t, screen); got != clearLine {
		t.Errorf("left behind: %q", got)
	}
	var nobody bytes.Buffer
	silent := newProgress(&nobody, start)
	silent.tick(start.Add(time.Hour), describe)
	silent.end()
	if silent != nil || nobody.Len() > 0 {
		t.Errorf("nobody is told %q", nobody.String())
	}
}
