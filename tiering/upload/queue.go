package upload

import (
	"context"
	"slices"
	"sync"
)

// queue gives the slots of uploads to those who wait for one: to the segment that has waited longest for the bucket, so
// that the partition furthest behind comes first. Every fairTurn-th slot goes to who has been in the queue longest, or
// a large backlog of old segments would keep the newest records of all other partitions back until it is done.
type queue struct {
	mu      sync.Mutex // guards the fields below
	width   int
	inside  int
	turns   int      // how many slots have been given to waiters
	waiting []waiter // in the order they came
}

type waiter struct {
	since int64         // when the segment's oldest record was appended, in Unix ms; −1 unknown, which is long ago
	turn  chan struct{} // closed when the slot is theirs
}

const fairTurn = 4

// enter waits for a slot. Its error is that of ctx.
func (q *queue) enter(ctx context.Context, since int64) error {
	q.mu.Lock()
	if q.inside < q.width && len(q.waiting) == 0 {
		q.inside++
		q.mu.Unlock()
		return nil
	}
	w := waiter{since: since, turn: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	q.mu.Unlock()
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		q.giveUp(w)
		return ctx.Err()
	}
}

// giveUp leaves the queue. A slot that came at the same moment goes on to the next.
func (q *queue) giveUp(w waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.IndexFunc(q.waiting, func(other waiter) bool { return other.turn == w.turn })
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
		return
	}
	q.inside--
	q.admit()
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inside--
	q.admit()
}

// setWidth changes how many slots there are. Who has one keeps it.
func (q *queue) setWidth(width int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.width = width
	q.admit()
}

// admit gives free slots away. It needs mu.
func (q *queue) admit() {
	for q.inside < q.width && len(q.waiting) > 0 {
		q.turns++
		at := nextTurn(q.waiting, q.turns)
		close(q.waiting[at].turn)
		q.waiting = slices.Delete(q.waiting, at, at+1)
		q.inside++
	}
}

// nextTurn picks who gets the given turn.
func nextTurn(waiting []waiter, turn int) int {
	if turn%fairTurn == 0 {
		return 0
	}
	next := 0
	for i, w := range waiting {
		if w.since < waiting[next].since {
			next = i
		}
	}
	return next
}
