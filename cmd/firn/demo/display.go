package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// display shows what is going on: bars on a terminal, and lines everywhere.
type display struct {
	out      io.Writer
	terminal bool
}

// say prints a line between the bars.
func (d *display) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

// phase is a group of bars that fill at the same time.
type phase struct {
	display *display
	bars    *mpb.Progress // nil when nobody watches
}

const (
	barWidth    = 40
	refreshRate = 100 * time.Millisecond
)

func (d *display) begin() *phase {
	if !d.terminal {
		return &phase{display: d}
	}
	bars := mpb.New(mpb.WithOutput(d.out), mpb.WithWidth(barWidth), mpb.WithRefreshRate(refreshRate))
	return &phase{display: d, bars: bars}
}

// bar adds a bar of total events.
func (p *phase) bar(name string, total int) *bar {
	if p.bars == nil {
		return &bar{}
	}
	return &bar{shown: p.bars.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.CountersNoUnit("%6d of %d events")))}
}

// end leaves the bars as they are and gives the terminal back.
func (p *phase) end() {
	if p.bars != nil {
		p.bars.Shutdown()
	}
}

// bar is one measure of progress. Its methods do nothing when nobody watches.
type bar struct{ shown *mpb.Bar }

func (b *bar) set(events int64) {
	if b.shown != nil {
		b.shown.SetCurrent(events)
	}
}

// stop ends a bar before its total: what is left of it is not going to come.
func (b *bar) stop() {
	if b.shown != nil {
		b.shown.Abort(false)
	}
}
