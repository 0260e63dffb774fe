package group

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
)

// expire removes what has been kept for long enough in all journals: offsets, and groups that have none left.
func (c *Coordinator) expire(now time.Time) {
	shards, _ := c.runtime.Shards()
	for _, shard := range shards {
		stored, err := storedGroups(shard)
		if err != nil {
			c.options.Logger.Error("offsets do not expire this time", "partition", shard.Partition(), "err", err)
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(stored)) {
			c.visit(shard, id, func(r *registry, s *slot) error { return r.expire(s, now) })
		}
	}
}

// visit does something with a group that nobody has asked for. What fails is tried again with the next round.
func (c *Coordinator) visit(shard *coordinator.Shard, id string, do func(r *registry, s *slot) error) {
	shard.Lock()
	defer shard.Unlock()
	if shard.Serving() != nil {
		return
	}
	r := shard.State.(*registry)
	s, err := r.find(id)
	if err == nil && s.group != nil {
		err = do(r, s)
		r.settle(s)
	}
	if err != nil {
		c.options.Logger.Error("a group is not cleaned up this time", "group", id, "err", err)
	}
}

// expire removes the offsets of a group whose time is over, and the group if it has neither members nor offsets then.
// Offsets of an open transaction keep both.
func (r *registry) expire(s *slot, now time.Time) error {
	expiry := s.group.Expiry()
	if expiry.Never {
		return nil
	}
	retention := r.coordinator.options.Config.OffsetsRetention
	var gone [][]byte
	kept := len(s.appended) > 0 || len(r.shard.StagedKeys(records.GroupPrefix(records.OffsetCommit, s.id))) > 0
	err := r.eachOffset(s.id, func(key records.Key, encoded []byte, value *kmsg.OffsetCommitValue) error {
		_, appended := s.appended[string(encoded)]
		if appended || r.shard.Staged(encoded) || !expired(expiry, key.Topic, value, retention, now) {
			kept = true
			return nil
		}
		gone = append(gone, bytes.Clone(encoded))
		return nil
	})
	switch {
	case err != nil:
		return err
	case !kept && s.inFlight == 0 && s.idle():
		return r.remove(s, gone, func(error) {})
	case len(gone) == 0:
		return nil
	}
	return r.removeOffsets(s, gone)
}

// expired tells whether an offset's time is over. A client may have said until when it is to be kept; else it is kept
// for the retention from the moment at which its group became empty, or from its commit if nobody knows that moment or
// the commit is later and the group one of KIP-848.
func expired(expiry machine.Expiry, topic string, value *kmsg.OffsetCommitValue, retention time.Duration,
	now time.Time,
) bool {
	if expiry.Keep != nil && expiry.Keep(topic) {
		return false
	}
	if value.ExpireTimestamp != -1 {
		return now.UnixMilli() >= value.ExpireTimestamp
	}
	since := expiry.Since
	if since.IsZero() {
		since = time.UnixMilli(value.CommitTimestamp)
	}
	if since.Before(expiry.NotBefore) {
		since = expiry.NotBefore
	}
	return now.UnixMilli()-since.UnixMilli() >= retention.Milliseconds()
}
