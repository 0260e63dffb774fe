package group

import (
	"bytes"
	"time"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/consumer"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
)

// loaded builds what is kept in memory of a shard: the groups that have members, whose sessions begin anew. Others are
// loaded when somebody asks for them.
func (c *Coordinator) loaded(shard *coordinator.Shard) error {
	r := &registry{
		coordinator: c, shard: shard, slots: map[string]*slot{}, resting: map[string]*slot{},
		waiting: map[machine.Waiter]waiting{},
	}
	stored := map[string]machine.Summary{}
	if err := storedMachines(shard, stored); err != nil {
		return err
	}
	for id, summary := range stored {
		if summary.Members == 0 {
			continue
		}
		s, err := r.find(id)
		if err != nil {
			return err
		}
		r.settle(s)
	}
	shard.State = r
	c.sweepLater(shard)
	return nil
}

func (c *Coordinator) lost(shard *coordinator.Shard) { shard.State.(*registry).end() }

// load makes the machine of a group from the view: nil if there is no such group. One that has nothing but offsets is a
// group of the classic protocol without members, as for Kafka. stored is false if all of them are in open transactions:
// the group may vanish with these.
func (r *registry) load(id string) (group machine.Group, stored bool, err error) {
	now, settings := time.Now(), r.coordinator.options.Config.Classic
	if group, err := r.loadConsumer(id, now); group != nil || err != nil {
		return group, true, err
	}
	entry, found, err := r.shard.Get(records.Key{Kind: records.GroupMetadata, Group: id}.Encode())
	if err != nil {
		return nil, false, err
	}
	if found {
		value, err := parseGroup(id, entry)
		if err != nil {
			return nil, false, err
		}
		return classic.Load(id, settings, value, now), true, nil
	}
	offsets := records.GroupPrefix(records.OffsetCommit, id)
	found, err = hasPrefix(r.shard, offsets)
	if err != nil || !found && len(r.shard.StagedKeys(offsets)) == 0 {
		return nil, false, err
	}
	return classic.New(id, settings, now), found, nil
}

// loadConsumer makes the machine of a group of KIP-848: nil if there is no such group.
func (r *registry) loadConsumer(id string, now time.Time) (machine.Group, error) {
	_, found, err := r.shard.Get(records.Key{Kind: records.ConsumerMetadata, Group: id}.Encode())
	if err != nil || !found {
		return nil, err
	}
	group := consumer.New(id, r.coordinator.options.Config.Consumer, r.coordinator.options.Cluster)
	for _, kind := range []records.Kind{
		records.ConsumerMetadata, records.ConsumerMember, records.ConsumerTarget, records.ConsumerTargetMember,
		records.ConsumerCurrentMember, records.ConsumerRegularExpression,
	} {
		err := r.shard.Scan(records.GroupPrefix(kind, id), func(encoded []byte, entry coordinator.Entry) error {
			key, err := records.ParseKey(encoded)
			if err != nil {
				return err
			}
			return group.Replay(key, bytes.Clone(entry.Value))
		})
		if err != nil {
			return nil, err
		}
	}
	group.Loaded(now)
	return group, nil
}
