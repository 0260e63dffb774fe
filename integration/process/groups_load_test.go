//go:build integration

package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	loadGroups      = 100
	loadMembers     = 10 // of each group
	loadTopic       = "shared"
	loadRebalancing = 5 * time.Second
	heartbeatEvery  = 200 * time.Millisecond
)

// A thousand members of a hundred groups leave and join again while all of them commit. When they stop, each group
// settles with all its members, and what is committed is exactly what was acknowledged last.
func TestAThousandMembersRebalanceWhileTheyCommit(t *testing.T) {
	node := Serve(t, Options{Set: []string{"group.initial.rebalance.delay.ms=0"}})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	admin := kadm.NewClient(node.Client())
	node.CreateTopic(loadTopic, loadMembers)
	topics, err := admin.ListTopics(ctx, loadTopic)
	if err != nil {
		t.Fatal(err)
	}
	rebalancing, settle := context.WithTimeout(ctx, loadRebalancing)
	defer settle()
	members := make([]*loadMember, 0, loadGroups*loadMembers)
	var running sync.WaitGroup
	ended, end := context.WithCancel(ctx)
	for i := range loadGroups * loadMembers {
		client, err := kgo.NewClient(kgo.SeedBrokers(node.Kafka))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		m := &loadMember{
			client: client, group: fmt.Sprintf("group-%d", i/loadMembers), topicID: topics[loadTopic].ID,
			partition: int32(i % loadMembers), random: rand.New(rand.NewPCG(7, uint64(i))),
			settled: make(chan struct{}), committed: -1,
		}
		members = append(members, m)
		running.Go(func() { m.run(ended, rebalancing) })
	}
	for _, m := range members {
		select {
		case <-m.settled:
		case <-ctx.Done():
			t.Fatalf("a member of %s does not settle", m.group)
		}
	}
	groups := describeLoadGroups(ctx, t, admin)
	end()
	running.Wait()
	checkLoad(ctx, t, admin, members, groups)
}

func describeLoadGroups(ctx context.Context, t *testing.T, admin *kadm.Client) kadm.DescribedGroups {
	t.Helper()
	groups, err := admin.DescribeGroups(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != loadGroups {
		t.Errorf("%d groups, want %d", len(groups), loadGroups)
	}
	return groups
}

func checkLoad(ctx context.Context, t *testing.T, admin *kadm.Client, members []*loadMember,
	groups kadm.DescribedGroups,
) {
	t.Helper()
	for _, group := range groups {
		if group.Err != nil || group.State != "Stable" || len(group.Members) != loadMembers {
			t.Errorf("%s is %s with %d members (%v), want %d", group.Group, group.State, len(group.Members), group.Err,
				loadMembers)
		}
	}
	commits := 0
	for i := 0; i < len(members); i += loadMembers {
		offsets, err := admin.FetchOffsets(ctx, members[i].group)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members[i : i+loadMembers] {
			commits += m.commits
			got, ok := offsets.Lookup(loadTopic, m.partition)
			if !ok || got.At != m.committed && (!m.cutOff || got.At != m.committed+1) {
				t.Errorf("%s: partition %d has %d committed, %d was acknowledged", m.group, m.partition, got.At, m.committed)
			}
			if m.failure != nil {
				t.Errorf("%s: %v", m.group, m.failure)
			}
		}
	}
	if commits < len(members) {
		t.Errorf("%d members made %d commits", len(members), commits)
	}
	t.Logf("%d commits", commits)
}

// loadMember is a member by the classic protocol, with nothing of a client around it.
type loadMember struct {
	client    *kgo.Client
	group     string
	topicID   [16]byte
	partition int32 // the one it commits, whatever it is assigned
	random    *rand.Rand

	id         string
	generation int32
	settled    chan struct{} // closed when it has been a member, undisturbed, after the rebalancing
	commits    int
	committed  int64 // the newest that was acknowledged
	cutOff     bool  // the last commit, of the offset after that one, was not answered any more
	failure    error
}

// run joins, heartbeats, commits and now and then leaves until rebalancing ends; then it stays until ctx ends.
func (m *loadMember) run(ctx, rebalancing context.Context) {
	var settle sync.Once
	defer settle.Do(func() { close(m.settled) })
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	for quiet := 0; ctx.Err() == nil; {
		if m.generation <= 0 {
			quiet = 0
			m.note(ctx, m.join(ctx))
			continue
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			return
		}
		m.note(ctx, m.commit(ctx))
		if m.generation > 0 {
			m.note(ctx, m.heartbeat(ctx))
		}
		switch {
		case rebalancing.Err() == nil:
			if m.generation > 0 && m.random.IntN(20) == 0 {
				m.note(ctx, m.leave(ctx))
			}
		case m.generation > 0:
			const undisturbed = 15
			if quiet++; quiet == undisturbed {
				settle.Do(func() { close(m.settled) })
			}
		}
	}
}

// note keeps the first error that no rebalance explains.
func (m *loadMember) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && m.failure == nil {
		m.failure = err
	}
}

// judge makes a member join again where an answer says so.
func (m *loadMember) judge(code int16) error {
	switch err := kerr.ErrorForCode(code); err {
	case nil:
		return nil
	case kerr.UnknownMemberID:
		m.id, m.generation = "", 0
		return nil
	case kerr.RebalanceInProgress, kerr.IllegalGeneration:
		m.generation = 0
		return nil
	default:
		return err
	}
}

func (m *loadMember) join(ctx context.Context) error {
	request := kmsg.NewPtrJoinGroupRequest()
	request.Group, request.MemberID, request.ProtocolType = m.group, m.id, "consumer"
	request.SessionTimeoutMillis, request.RebalanceTimeoutMillis = 30_000, 30_000
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Topics = []string{loadTopic}
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "range", metadata.AppendTo(nil)
	request.Protocols = []kmsg.JoinGroupRequestProtocol{protocol}
	joined, err := request.RequestWith(ctx, m.client)
	if err != nil {
		return err
	}
	switch joined.ErrorCode {
	case 0:
		m.id = joined.MemberID
	case kerr.MemberIDRequired.Code:
		m.id = joined.MemberID
		return nil
	default:
		return m.judge(joined.ErrorCode)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = m.group, m.id, joined.Generation
	sync.ProtocolType, sync.Protocol = joined.ProtocolType, joined.Protocol
	if joined.LeaderID == m.id {
		for _, member := range joined.Members {
			assignment := kmsg.NewSyncGroupRequestGroupAssignment()
			assignment.MemberID, assignment.MemberAssignment = member.MemberID, []byte(member.MemberID)
			sync.GroupAssignment = append(sync.GroupAssignment, assignment)
		}
	}
	synced, err := sync.RequestWith(ctx, m.client)
	if err != nil {
		return err
	}
	if synced.ErrorCode == 0 {
		if string(synced.MemberAssignment) != m.id {
			return fmt.Errorf("member %s was given what is %q's", m.id, synced.MemberAssignment)
		}
		m.generation = joined.Generation
	}
	return m.judge(synced.ErrorCode)
}

func (m *loadMember) heartbeat(ctx context.Context) error {
	request := kmsg.NewPtrHeartbeatRequest()
	request.Group, request.MemberID, request.Generation = m.group, m.id, m.generation
	answer, err := request.RequestWith(ctx, m.client)
	if err != nil {
		return err
	}
	return m.judge(answer.ErrorCode)
}

func (m *loadMember) commit(ctx context.Context) error {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.MemberID, request.Generation = m.group, m.id, m.generation
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Partition, partition.Offset = m.partition, m.committed+1
	request.Topics = []kmsg.OffsetCommitRequestTopic{{
		Topic: loadTopic, TopicID: m.topicID, Partitions: []kmsg.OffsetCommitRequestTopicPartition{partition},
	}}
	answer, err := request.RequestWith(ctx, m.client)
	m.cutOff = err != nil
	if err != nil {
		return err
	}
	code := answer.Topics[0].Partitions[0].ErrorCode
	if code == 0 {
		m.commits++
		m.committed++
	}
	return m.judge(code)
}

func (m *loadMember) leave(ctx context.Context) error {
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group = m.group
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = m.id
	request.Members = []kmsg.LeaveGroupRequestMember{member}
	answer, err := request.RequestWith(ctx, m.client)
	if err != nil {
		return err
	}
	m.id, m.generation = "", 0
	return m.judge(answer.ErrorCode)
}
