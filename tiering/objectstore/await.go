package objectstore

import (
	"context"
	"errors"
	"time"
)

// StalledAfter is how long readers wait for something that the store was asked for before they hear that it does not
// answer. Clients give a request up after half a minute.
const StalledAfter = 15 * time.Second

var errUnanswered = &Error{Operation: OpGet, Status: "unanswered", Kind: ErrUnavailable,
	Err: errors.New("the object store has not answered for " + StalledAfter.String())}

// Await waits until done is closed, which whoever has asked the store does. Its error is that of ctx, or
// ErrUnavailable once the store was asked longer than StalledAfter ago, however short the time that one reader waits:
// polls that are answered with nothing again and again would look like the end of the log. The request goes on.
func Await(ctx context.Context, done <-chan struct{}, asked time.Time) error {
	select {
	case <-done:
		return nil
	default:
	}
	stalled := time.NewTimer(time.Until(asked.Add(StalledAfter)))
	defer stalled.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-stalled.C:
		return errUnanswered
	}
}
