package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// followed is what a broker does in the background, as it was when it was asked last.
type followed interface {
	busy() bool
	progress() string // a line
}

// followPoll is how often the broker is asked.
const followPoll = 200 * time.Millisecond

// follow says how far something is, whenever that has changed, until it is done. again asks anew. When ctx ends it goes
// on in the broker.
func follow[T followed](ctx context.Context, seen T, again func() (T, error), progress io.Writer) (T, error) {
	ticker := time.NewTicker(followPoll)
	defer ticker.Stop()
	for said := ""; seen.busy(); {
		if now := seen.progress(); now != said {
			fmt.Fprintln(progress, now)
			said = now
		}
		select {
		case <-ctx.Done():
			return seen, fmt.Errorf("the broker goes on without us: %w", context.Cause(ctx))
		case <-ticker.C:
		}
		var err error
		if seen, err = again(); err != nil {
			return seen, err
		}
	}
	return seen, nil
}
