package group

import (
	"time"

	"github.com/firnlog/firn/internal/kafka"
)

// hurried are requests whose answers wait for records to become durable, for no longer than offsets.commit.timeout.ms.
// What was written stays written: the client asks again, and finds it. All wait equally long, so the queue is in the
// order of the deadlines, and one timer does for all.
type hurried struct {
	queue []deadline
	timer *time.Timer // calls expire; nil until there first is something to wait for
	armed bool
}

type deadline struct {
	at    time.Time
	asked waiting
}

// hurry gives a request its time.
func (r *registry) hurry(asked waiting) {
	h := &r.hurried
	timeout := r.coordinator.options.Config.CommitTimeout
	h.forgetAnswered()
	h.queue = append(h.queue, deadline{time.Now().Add(timeout), asked})
	switch {
	case h.armed:
	case h.timer == nil:
		h.timer = time.AfterFunc(timeout, r.expireHurried)
	default:
		h.timer.Reset(timeout)
	}
	h.armed = true
}

// expireHurried answers those whose time is over, in Kafka's words for a journal that takes too long.
func (r *registry) expireHurried() {
	r.shard.Lock()
	defer r.shard.Unlock()
	h := &r.hurried
	h.armed = false
	if r.lost {
		return
	}
	now := time.Now()
	for h.forgetAnswered(); len(h.queue) > 0 && !now.Before(h.queue[0].at); h.forgetAnswered() {
		h.queue[0].asked.refuse(kafka.CoordinatorNotAvailable)
	}
	if len(h.queue) > 0 {
		h.timer.Reset(h.queue[0].at.Sub(now))
		h.armed = true
	}
}

// forgetAnswered keeps the queue short: answers come in about the order of the requests.
func (h *hurried) forgetAnswered() {
	for len(h.queue) > 0 {
		select {
		case <-h.queue[0].asked.answer.Done():
			h.queue[0] = deadline{}
			h.queue = h.queue[1:]
		default:
			return
		}
	}
}

func (h *hurried) stop() {
	h.queue = nil
	if h.timer != nil {
		h.timer.Stop()
	}
}
