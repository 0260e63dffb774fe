package group

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// List lists the groups of all journals that this broker leads, by name, filtered by state and type.
func (c *Coordinator) List(request *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	response := kmsg.NewPtrListGroupsResponse()
	summaries, err := c.summaries()
	if err != nil {
		response.ErrorCode = int16(errorCode(err))
		return response
	}
	for _, id := range slices.Sorted(maps.Keys(summaries)) {
		summary := summaries[id]
		if !matches(request.StatesFilter, summary.State) || !matches(request.TypesFilter, string(summary.Type)) {
			continue
		}
		listed := kmsg.NewListGroupsResponseGroup()
		listed.Group, listed.ProtocolType = id, summary.ProtocolType
		listed.GroupState, listed.GroupType = summary.State, string(summary.Type)
		response.Groups = append(response.Groups, listed)
	}
	return response
}

// matches tells whether a filter, which is empty for all, has a value in any case.
func matches(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(one string) bool {
		return strings.EqualFold(strings.TrimSpace(one), value)
	})
}

// summaries describes all groups by name.
func (c *Coordinator) summaries() (map[string]machine.Summary, error) {
	shards, loading := c.runtime.Shards()
	if loading {
		return nil, fmt.Errorf("some groups are still being loaded: %w", kafka.CoordinatorLoadInProgress)
	}
	all := map[string]machine.Summary{}
	for _, shard := range shards {
		stored, err := summarizeShard(shard)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, stored)
	}
	return all, nil
}

// summarizeShard describes the groups of one journal by name.
func summarizeShard(shard *coordinator.Shard) (map[string]machine.Summary, error) {
	stored, err := storedGroups(shard)
	if err != nil {
		return nil, err
	}
	shard.Lock()
	defer shard.Unlock()
	if err := shard.Serving(); err != nil {
		return nil, err
	}
	shard.State.(*registry).summarize(stored)
	return stored, nil
}

// summarize puts what is in memory in the place of what the view has.
func (r *registry) summarize(stored map[string]machine.Summary) {
	for id, s := range r.slots {
		if s.group == nil {
			delete(stored, id)
			continue
		}
		stored[id] = s.group.Summary()
	}
}

// storedGroups describes the groups that a view has.
func storedGroups(shard *coordinator.Shard) (map[string]machine.Summary, error) {
	groups := map[string]machine.Summary{}
	if err := storedOffsets(shard, groups); err != nil {
		return nil, err
	}
	return groups, storedMachines(shard, groups)
}

// storedOffsets finds the groups that have offsets, also if only open transactions have any.
func storedOffsets(shard *coordinator.Shard, groups map[string]machine.Summary) error {
	var last []byte // the prefix of all offsets of the group that was seen last
	visit := func(encoded []byte, _ coordinator.Entry) error {
		if last != nil && bytes.HasPrefix(encoded, last) {
			return nil
		}
		key, err := records.ParseKey(encoded)
		if err != nil {
			return err
		}
		last = records.GroupPrefix(records.OffsetCommit, key.Group)
		groups[key.Group] = emptyGroup(machine.Classic, "")
		return nil
	}
	for _, encoded := range shard.StagedKeys(records.Prefix(records.OffsetCommit)) {
		if err := visit(encoded, coordinator.Entry{}); err != nil {
			return err
		}
	}
	return shard.Scan(records.Prefix(records.OffsetCommit), visit)
}

// storedMachines finds the groups that have more than offsets. Of those with members it only tells how many they are.
func storedMachines(shard *coordinator.Shard, groups map[string]machine.Summary) error {
	err := shard.Scan(records.Prefix(records.GroupMetadata), func(encoded []byte, entry coordinator.Entry) error {
		key, err := records.ParseKey(encoded)
		if err != nil {
			return err
		}
		value, err := parseGroup(key.Group, entry)
		if err != nil {
			return err
		}
		summary := emptyGroup(machine.Classic, value.ProtocolType)
		summary.Members = len(value.Members)
		groups[key.Group] = summary
		return nil
	})
	if err != nil {
		return err
	}
	return storedConsumerGroups(shard, groups)
}

func storedConsumerGroups(shard *coordinator.Shard, groups map[string]machine.Summary) error {
	for _, kind := range []records.Kind{records.ConsumerMetadata, records.ConsumerMember} {
		err := shard.Scan(records.Prefix(kind), func(encoded []byte, _ coordinator.Entry) error {
			key, err := records.ParseKey(encoded)
			if err != nil {
				return err
			}
			summary := emptyGroup(machine.Consumer, consumerProtocol)
			if kind == records.ConsumerMember {
				summary.Members = groups[key.Group].Members + 1
			}
			groups[key.Group] = summary
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func emptyGroup(kind machine.Type, protocolType string) machine.Summary {
	return machine.Summary{Type: kind, State: string(classic.Empty), ProtocolType: protocolType, Empty: true}
}

func parseGroup(id string, entry coordinator.Entry) (*kmsg.GroupMetadataValue, error) {
	value := kmsg.NewGroupMetadataValue()
	if err := value.ReadFrom(entry.Value); err != nil {
		return nil, fmt.Errorf("read the metadata of group %q: %w", id, err)
	}
	return &value, nil
}

// groupErrorFrom is the DescribeGroups version from which on it is an error that a group does not exist.
const groupErrorFrom = 6

// Describe describes a group of the classic protocol. The answer is a DescribeGroupsResponse with that group.
func (c *Coordinator) Describe(group string, version int16) *Answer {
	refuse := func(err error) kmsg.Response {
		described := kmsg.NewDescribeGroupsResponseGroup()
		described.Group, described.ErrorCode = group, int16(errorCode(err))
		return describedGroup(described)
	}
	return c.serve(group, refuse, func(t turn) (machine.Step, error) {
		described := kmsg.NewDescribeGroupsResponseGroup()
		described.Group, described.State = group, string(classic.Dead)
		problem := fmt.Sprintf("Group %s not found.", group)
		switch group := t.slot.group.(type) {
		case nil:
		case *classic.Group:
			described, problem = group.Describe(), ""
		default:
			problem = fmt.Sprintf("Group %s is not a classic group.", t.slot.id)
		}
		if problem != "" && version >= groupErrorFrom {
			described.ErrorCode, described.ErrorMessage = int16(kafka.GroupIDNotFound), &problem
		}
		return t.reply(describedGroup(described)), nil
	})
}

func describedGroup(group kmsg.DescribeGroupsResponseGroup) *kmsg.DescribeGroupsResponse {
	response := kmsg.NewPtrDescribeGroupsResponse()
	response.Groups = []kmsg.DescribeGroupsResponseGroup{group}
	return response
}
