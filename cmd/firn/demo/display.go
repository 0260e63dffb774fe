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
	progress *mpb.Progress // nil when nobody watches
	bars     []*mpb.Bar
}

const (
	barWidth    = 40
	refreshRate = 100 * time.Millisecond
)

func (d *display) begin() *phase {
	if !d.terminal {
		return &phase{}
	}
	progress := mpb.New(mpb.WithOutput(d.out), mpb.WithWidth(barWidth), mpb.WithRefreshRate(refreshRate))
	return &phase{progress: progress}
}

// bar adds a bar of total events.
func (p *phase) bar(name string, total int) *bar {
	if p.progress == nil {
		return &bar{}
	}
	shown := p.progress.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.CountersNoUnit("%6d of %d events")))
	p.bars = append(p.bars, shown)
	return &bar{shown: shown}
}

// end draws the bars as they are, for the last time, and gives the terminal back. Some end before their total: what is
// left of them is not going to come.
func (p *phase) end() {
	if p.progress == nil {
		return
	}
	for _, shown := range p.bars {
		shown.Abort(false)
	}
	p.progress.Wait()
}

// bar is one measure of progress. Its methods do nothing when nobody watches.
type bar struct{ shown *mpb.Bar }

func (b *bar) set(events int64) {
	if b.shown != nil {
		b.shown.SetCurrent(events)
	}
}
