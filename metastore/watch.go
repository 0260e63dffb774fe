package metastore

import (
	"sync"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// update is one step of the state machine, or of this node's knowledge of the controller, on its way to the watchers.
type update struct {
	image      *image.Image // nil if only the controller changed
	delta      image.Delta
	controller kafka.BrokerID // if image is nil
	told       chan struct{}  // closed once every watcher has returned
}

// maxUpdates bounds how far the state machine may run ahead of the watchers.
const maxUpdates = 256

// watchers tells those who watch about each step, in order and from one goroutine: run's. Only that goroutine makes
// the image that the store shows, so nobody sees an image that a watcher is told of later than a proposer.
type watchers struct {
	updates chan update
	added   chan struct{} // has room for one: somebody has joined
	show    func(*image.Image)

	controller kafka.BrokerID // run's alone, as is the next
	image      *image.Image   // as last shown

	mu   sync.Mutex // guards the field below
	list []*watcher
}

type watcher struct {
	tell   func(*image.Image, image.Delta)
	primed bool // has been told of a whole image; run's alone
}

func newWatchers(first *image.Image, show func(*image.Image)) *watchers {
	show(first)
	return &watchers{
		updates:    make(chan update, maxUpdates),
		added:      make(chan struct{}, 1),
		show:       show,
		controller: kafka.NoBroker,
		image:      first,
	}
}

// add has tell called with the whole image first and with each change after it.
func (w *watchers) add(tell func(*image.Image, image.Delta)) {
	w.mu.Lock()
	w.list = append(w.list, &watcher{tell: tell})
	w.mu.Unlock()
	select {
	case w.added <- struct{}{}:
	default: // run has not seen the last one yet and will find both
	}
}

// run tells the watchers until the updates end.
func (w *watchers) run() {
	w.prime()
	for {
		select {
		case u, more := <-w.updates:
			if !more {
				return
			}
			w.deliver(u)
			close(u.told)
		case <-w.added:
			w.prime()
		}
	}
}

func (w *watchers) snapshot() []*watcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list[:len(w.list):len(w.list)]
}

// prime tells the watchers that know nothing yet of the present image.
func (w *watchers) prime() {
	for _, watcher := range w.snapshot() {
		if !watcher.primed {
			watcher.primed = true
			watcher.tell(w.image, image.Delta{Index: w.image.Index, Reset: true})
		}
	}
}

func (w *watchers) deliver(u update) {
	if u.image == nil {
		w.controller = u.controller
		u.image = w.image
		u.delta = image.Delta{Index: u.image.Index, ControllerChanged: true}
	}
	w.image = u.image.With(func(next *image.Image) { next.Controller = w.controller })
	w.show(w.image)
	for _, watcher := range w.snapshot() {
		switch {
		case !watcher.primed:
			watcher.primed = true
			watcher.tell(w.image, image.Delta{Index: w.image.Index, Reset: true})
		case !u.delta.Empty():
			watcher.tell(w.image, u.delta)
		}
	}
}
