package cache

import "container/list"

// history remembers what was downloaded last, and when, for a while: about as long as it takes to download twice what
// the cache holds.
type history struct {
	limit int
	known map[ID]*list.Element
	order *list.List // of asking, the oldest first
}

type asking struct {
	id ID
	at int64
}

const (
	// usualBytes is the size of most parts.
	usualBytes = 4 << 20
	minHistory = 64
	maxHistory = 1 << 16
)

func newHistory(bytes int64) history {
	return history{
		limit: int(min(max(2*bytes/usualBytes, minHistory), maxHistory)),
		known: map[ID]*list.Element{}, order: list.New(),
	}
}

// note takes down a download and tells when there was one before.
func (h *history) note(id ID, now int64) (before int64, again bool) {
	if place, found := h.known[id]; found {
		last := place.Value.(*asking)
		before, last.at = last.at, now
		h.order.MoveToBack(place)
		return before, true
	}
	if h.order.Len() == h.limit {
		oldest := h.order.Remove(h.order.Front()).(*asking)
		delete(h.known, oldest.id)
	}
	h.known[id] = h.order.PushBack(&asking{id: id, at: now})
	return 0, false
}
