package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// The types of groups whose members read as consumers: those of the classic protocol, and of KIP-848's.
const (
	typeClassic  = "classic"
	typeConsumer = "consumer"
)

// The states in which a group has no members.
const (
	stateEmpty = "Empty"
	stateDead  = "Dead"
)

// groupDescriptions is what `group describe` found.
type groupDescriptions struct {
	Groups []groupDescription `json:"groups"`
}

type groupDescription struct {
	Group       string           `json:"group"`
	Type        string           `json:"type"`
	State       string           `json:"state"`
	Assignor    string           `json:"assignor"`
	Epoch       *int32           `json:"epoch"` // of a group of type consumer
	Coordinator int32            `json:"coordinator"`
	Lag         int64            `json:"lag"` // the sum over the partitions
	Members     []groupMember    `json:"members"`
	Partitions  []groupPartition `json:"partitions"`
}

type groupMember struct {
	Member     string             `json:"member"`
	Instance   *string            `json:"instance"`
	Epoch      *int32             `json:"epoch"` // of a group of type consumer
	ClientID   string             `json:"client_id"`
	Host       string             `json:"host"`
	Assignment map[string][]int32 `json:"assignment"`
}

func groupDescribeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe GROUP…",
		Short: "Show a group's members, its committed offsets and how far it lags behind",
		Args:  takes(cobra.MinimumNArgs(1)),
	}
	brokers := addBrokerFlag(cmd)
	cmd.ValidArgsFunction = completeGroups(brokers, 0, nil)
	return printing(cmd, func(cmd *cobra.Command, names []string) (*groupDescriptions, error) {
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		described := &groupDescriptions{Groups: []groupDescription{}}
		var failed []error
		for _, name := range names {
			group, err := describeGroup(client, name)
			if err == nil {
				err = group.addPartitions(client)
			}
			if err != nil {
				failed = append(failed, err)
				continue
			}
			described.Groups = append(described.Groups, group)
		}
		if len(described.Groups) == 0 {
			return nil, failures("group", len(names), failed)
		}
		return described, failures("group", len(names), failed)
	})
}

// describeGroup finds a group's state and members. A group that does not exist is GROUP_ID_NOT_FOUND, also where the
// cluster is older than that answer and calls it dead.
func describeGroup(client *session, name string) (groupDescription, error) {
	described, err := describeConsumerGroup(client, name)
	if err != nil {
		// It is of the classic protocol, or the cluster knows no other.
		described, err = describeClassicGroup(client, name)
	}
	if err == nil && described.State == stateDead {
		err = kerr.GroupIDNotFound
	}
	if err != nil {
		return described, fmt.Errorf("group %s: %w", name, err)
	}
	return described, nil
}

func describeConsumerGroup(client *session, name string) (groupDescription, error) {
	groups, err := client.admin.DescribeConsumerGroups(client.ctx, name)
	found, ok := groups[name]
	if err = errors.Join(err, found.Err); err != nil || !ok {
		return groupDescription{}, errors.Join(err, missingAnswer(ok))
	}
	described := groupDescription{Group: name, Type: typeConsumer, State: found.State, Assignor: found.AssignorName,
		Epoch: &found.Epoch, Coordinator: found.Coordinator.NodeID, Members: []groupMember{}}
	for i := range found.Members {
		m := &found.Members[i]
		member := groupMember{Member: m.MemberID, Instance: m.InstanceID, Epoch: &m.MemberEpoch, ClientID: m.ClientID,
			Host: m.ClientHost, Assignment: make(map[string][]int32)}
		for _, topic := range m.Assignment.Sorted() {
			member.Assignment[topic.Topic] = topic.Partitions
		}
		described.Members = append(described.Members, member)
	}
	return described, nil
}

func describeClassicGroup(client *session, name string) (groupDescription, error) {
	groups, err := client.admin.DescribeGroups(client.ctx, name)
	found, ok := groups[name]
	if err != nil || !ok {
		return groupDescription{}, errors.Join(brokerFailure(err), missingAnswer(ok || err != nil))
	}
	if found.Err != nil {
		return groupDescription{}, kafkaError(found.Err, found.ErrMessage)
	}
	described := groupDescription{Group: name, Type: typeClassic, State: found.State, Assignor: found.Protocol,
		Coordinator: found.Coordinator.NodeID, Members: []groupMember{}}
	for i := range found.Members {
		m := &found.Members[i]
		member := groupMember{Member: m.MemberID, Instance: m.InstanceID, ClientID: m.ClientID, Host: m.ClientHost,
			Assignment: make(map[string][]int32)}
		// Other protocols (Connect's) assign no partitions.
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range assigned.Topics {
				member.Assignment[topic.Topic] = topic.Partitions
			}
		}
		described.Members = append(described.Members, member)
	}
	return described, nil
}

// missingAnswer is the error of a broker that left out what it was asked about.
func missingAnswer(answered bool) error {
	if answered {
		return nil
	}
	return errNoAnswer
}

// addPartitions looks up where the group stands.
func (g *groupDescription) addPartitions(client *session) error {
	committed, err := committedOffsets(client, g.Group)
	if err != nil {
		return err
	}
	topics := make(kadm.TopicsSet)
	owners := make(map[string]map[int32]string)
	for _, member := range g.Members {
		for topic, partitions := range member.Assignment {
			topics.Add(topic)
			if owners[topic] == nil {
				owners[topic] = make(map[int32]string)
			}
			for _, partition := range partitions {
				owners[topic][partition] = member.Member
			}
		}
	}
	for topic := range committed {
		topics.Add(topic)
	}
	var offsets topicOffsets
	if len(topics) > 0 { // no names would mean all topics
		offsets = listStartsAndEnds(client, topics.Topics())
	}
	g.Partitions = groupPartitions(committed, owners, offsets)
	for _, partition := range g.Partitions {
		if partition.Lag != nil {
			g.Lag += *partition.Lag
		}
	}
	return nil
}
