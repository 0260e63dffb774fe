package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
)

// isTerminal tells whether a person watches w: only then are there colours and progress.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(file.Fd()) || isatty.IsCygwinTerminal(file.Fd()))
}

// hasColours tells whether w shows colours and its owner wants them (NO_COLOR: https://no-color.org).
func hasColours(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// The colours: escape sequences of every terminal.
const (
	colourError = "\x1b[31m"
	colourKey   = "\x1b[36m"
	colourEnd   = "\x1b[0m"
)

const (
	// progressDelay is how long work may take before anybody wonders.
	progressDelay = time.Second
	// progressInterval is slow enough to be read.
	progressInterval = 250 * time.Millisecond
	// clearLine brings the cursor to the start of its line and empties it.
	clearLine = "\r\x1b[K"
)

// progress is one line on a terminal that tells how far long work has come. It is not for concurrent use. A nil one
// prints nothing.
type progress struct {
	out   io.Writer
	began time.Time
	next  time.Time // when the line is due again
	shown bool
}

// newProgress begins to watch work; out must be a terminal, or nobody is told anything.
func newProgress(out io.Writer, now time.Time) *progress {
	if !isTerminal(out) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &progress{out: out, began: now, next: now.Add(progressDelay)}
}

// tick prints the line that describe returns, if it is time. It is called whenever there is something new.
func (p *progress) tick(now time.Time, describe func(elapsed time.Duration) string) {
	if p == nil || now.Before(p.next) {
		return
	}
	p.next, p.shown = now.Add(progressInterval), true
	fmt.Fprint(p.out, clearLine+describe(now.Sub(p.began)))
}

// end takes the line away.
func (p *progress) end() {
	if p != nil && p.shown {
		fmt.Fprint(p.out, clearLine)
		p.shown = false
	}
}

// perSecond is a speed for people.
func perSecond(bytes int64, elapsed time.Duration) string {
	return byteSize(int64(float64(bytes)/max(elapsed.Seconds(), 1e-3))) + "/s"
}
