package fetch

import (
	"errors"
	"fmt"
	"sync"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/manifest"
)

// head is what is remote of a partition, as of one version of its tier state.
type head struct {
	version int64
	start   int64
	end     int64
	entries manifest.Entries // may be a little newer than the rest
}

// heads keeps decoded manifests, so that a read does not have to decode one.
type heads struct {
	metadata Metadata

	mu    sync.Mutex // guards the field below
	known map[kafka.TopicIDPartition]*head
}

// maxHeads bounds how many manifests are kept; beyond it any one goes.
const maxHeads = 4096

func (h *heads) init(metadata Metadata) {
	h.metadata, h.known = metadata, map[kafka.TopicIDPartition]*head{}
}

// get gives the manifest as of now. What is not known is an error that says "try again".
func (h *heads) get(tp kafka.TopicIDPartition) (*head, error) {
	partition, found := h.metadata.Image().PartitionByID(tp)
	if !found {
		return nil, fmt.Errorf("partition %s is not known here: %w", tp, kafka.NotLeaderOrFollower)
	}
	if partition.Tier == nil {
		return nil, fmt.Errorf("it is not known yet what is remote of %s: %w", tp, kafka.KafkaStorageError)
	}
	h.mu.Lock()
	known := h.known[tp]
	h.mu.Unlock()
	if known != nil && known.version == partition.Tier.Version {
		return known, nil
	}
	entries, err := h.metadata.HeadEntries(tp)
	if err != nil {
		return nil, err
	}
	next := &head{
		version: partition.Tier.Version, start: partition.Tier.Start, end: partition.Tier.End, entries: entries,
	}
	if err := next.entries.Check(); err != nil {
		return nil, fmt.Errorf("the manifest of %s makes no sense: %w", tp, errors.Join(err, kafka.KafkaStorageError))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.known) >= maxHeads {
		for some := range h.known {
			delete(h.known, some)
			break
		}
	}
	h.known[tp] = next
	return next, nil
}

// drop has the manifest decoded again at the next look.
func (h *heads) drop(tp kafka.TopicIDPartition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, tp)
}
