package sampler

import (
	"context"
	"time"
)

// Watch reads a process again and again until the context ends and returns the largest resident memory that it saw, in
// bytes. It ends, too, when the process does.
func Watch(ctx context.Context, pid int, every time.Duration) (mostResident int64) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		process, err := Of(pid)
		if err != nil {
			return mostResident
		}
		mostResident = max(mostResident, process.Resident)
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return mostResident
		}
	}
}
