package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

// The values of --commit.
const (
	commitAfterOutput = "after-output"
	commitNone        = "none"
)

// The values of --group-protocol, which are those of the Java consumer's group.protocol.
const (
	protocolClassic  = "classic"
	protocolConsumer = "consumer" // KIP-848
)

// commitPatience is how long a commit may take. What it covers is printed already, so it is given that long also after
// an interrupt.
const commitPatience = 30 * time.Second

// membershipFlags are those of a reading as a member of a group.
type membershipFlags struct {
	group    string
	instance string
	protocol string
	commit   string
}

func (m *membershipFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&m.group, "group", "g", "",
		"read as a member of this group; -o then says where to begin where the group has committed nothing")
	flags.StringVar(&m.instance, "instance-id", "",
		"be this static member of the group: its partitions wait for it while it is restarted")
	flags.StringVar(&m.protocol, "group-protocol", protocolClassic,
		"protocol of the group: classic, or consumer (the broker shares the partitions out, KIP-848)")
	completeFlag(cmd, "group-protocol", protocolClassic, protocolConsumer)
	flags.StringVar(&m.commit, "commit", commitAfterOutput,
		"when to commit the group's offsets: after-output (as soon as the output has taken the records), or none")
	completeFlag(cmd, "commit", commitAfterOutput, commitNone)
}

// checkMembership reads what needs no cluster.
func (c *consumeRequest) checkMembership(given func(flag string) bool) error {
	switch {
	case c.commit != commitAfterOutput && c.commit != commitNone:
		return fmt.Errorf("unknown --commit %q: %s and %s are known", c.commit, commitAfterOutput, commitNone)
	case c.protocol != protocolClassic && c.protocol != protocolConsumer:
		return fmt.Errorf("unknown --group-protocol %q: %s and %s are known", c.protocol, protocolClassic, protocolConsumer)
	case c.group == "" && (given("instance-id") || given("commit") || given("group-protocol")):
		return errors.New("--instance-id, --group-protocol and --commit belong to --group")
	case c.group == "" && given("group"):
		return errors.New("--group is empty")
	case c.group != "" && len(c.partitions) > 0:
		return errors.New("--partitions and --group exclude each other: the group shares the partitions out")
	case c.group != "" && c.offsets.bounded:
		return errors.New("-o says where a group begins, so it must not have an end")
	}
	return nil
}

// membership is a reading as a member of a group. Partitions come and go while it reads: what the group's callbacks
// tell is kept until the reading is ready for it.
type membership struct {
	request   *consumeRequest
	client    *session
	connected chan struct{} // closed once client is there: the group may call before
	reading   *reading
	owned     map[kafka.TopicPartition]bool
	note      func(string)

	mu      sync.Mutex // guards the fields below
	changes []assignmentChange
	wake    context.CancelFunc             // ends the present poll
	ends    map[kafka.TopicPartition]int64 // where partitions ended when they were first met
}

// assignmentChange is partitions that were given to the member, or taken from it.
type assignmentChange struct {
	given topicSpans
	taken map[string][]int32
}

func (c *consumeRequest) runAsMember(cmd *cobra.Command, brokers *brokerFlag, output recordOutput) error {
	m := &membership{request: c, reading: newReading(nil, c.limit), owned: make(map[kafka.TopicPartition]bool),
		ends: make(map[kafka.TopicPartition]int64), wake: func() {}, connected: make(chan struct{}),
		note: func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "firn: %s\n", text) }}
	m.reading.output, m.reading.filter, m.reading.control = output, c.filter, c.control
	m.reading.isolation = c.isolation
	m.reading.printed = make(map[string]map[int32]kgo.EpochOffset)
	err := m.noteEnds(cmd.Context(), brokers)
	if err != nil {
		return err
	}
	if m.client, err = brokers.connect(cmd.Context(), m.options()...); err != nil {
		return err
	}
	defer m.client.Close()
	close(m.connected)
	err = m.consume(bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16))
	if c.follow && cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // an interrupt is how following ends
	}
	return err
}

// noteEnds finds the topics, since what is not there is nothing to wait for, and where they end now.
func (m *membership) noteEnds(ctx context.Context, brokers *brokerFlag) error {
	client, err := brokers.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	topics, err := m.request.choice.find(client)
	if err != nil {
		return err
	}
	_, err = m.borders(client, sortedKeys(topics))
	return err
}

func (m *membership) options() []kgo.Opt {
	c := m.request
	options := []kgo.Opt{
		kgo.ConsumerGroup(c.group), kgo.ConsumeTopics(c.choice.texts()...),
		// Range joins the groups of clients that know no cooperative assignor.
		kgo.Balancers(kgo.CooperativeStickyBalancer(), kgo.RangeBalancer()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.AdjustFetchOffsetsFn(m.assigned), kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.revoked),
		// An offset that is committed and no longer there is an error: going on elsewhere would leave records out.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(fetchMaxWait), kgo.FetchIsolationLevel(c.isolation.level()), kgo.Rack(c.rack),
		kgo.KeepControlRecords(), // they are not printed, and committed past
		kgo.MetadataMaxAge(discoveryInterval),
	}
	if c.protocol == protocolConsumer {
		options = append(options, kgo.ServerSideBalancer())
	}
	if c.regex {
		// As a broker knows of no exceptions, the client finds the topics in either protocol; the cluster's own are read by
		// name only.
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeExcludeTopics("^"+kafka.GroupMetadataTopic+"$",
			"^"+kafka.TransactionStateTopic+"$"))
	}
	if c.instance != "" {
		options = append(options, kgo.InstanceID(c.instance))
	}
	return options
}

// borders looks up where partitions begin and end, and notes the ends of those that are new.
func (m *membership) borders(client *session, topics []string) (listedBorders, error) {
	borders, err := listBorders(client, m.request.offsets, m.request.isolation, topics)
	if err != nil {
		return borders, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	borders.end.Each(func(end kadm.ListedOffset) {
		key := kafka.TopicPartition{Topic: end.Topic, Partition: end.Partition}
		if _, known := m.ends[key]; !known && end.Err == nil {
			m.ends[key] = end.Offset
		}
	})
	return borders, nil
}

// assigned is called with the offsets that the group has committed in partitions that are this member's now; below 0
// there is none.
func (m *membership) assigned(ctx context.Context, committed map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	select {
	case <-m.connected:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	begins, given, err := m.begin(committed)
	if err != nil {
		m.client.cancel(fmt.Errorf("group %s: %w", m.request.group, err))
		return nil, err
	}
	m.change(assignmentChange{given: given})
	return begins, nil
}

func (m *membership) begin(committed map[string]map[int32]kgo.Offset,
) (begins map[string]map[int32]kgo.Offset, given topicSpans, err error) {
	given = make(topicSpans)
	if len(committed) == 0 {
		return committed, given, nil
	}
	borders, err := m.borders(m.client, sortedKeys(committed))
	if err != nil {
		return nil, nil, err
	}
	for topic, partitions := range committed {
		given[topic] = make(map[int32]span)
		for partition, offset := range partitions {
			found, err := borders.of(topic, partition)
			if err != nil {
				return nil, nil, err
			}
			resolved := m.request.offsets.resolve(found)
			if at := offset.EpochOffset().Offset; at >= 0 {
				resolved.start, resolved.note = at, ""
			} else {
				partitions[partition] = kgo.NewOffset().At(resolved.start)
			}
			resolved.end = m.endOf(topic, partition)
			given[topic][partition] = resolved
		}
	}
	return committed, given, nil
}

func (m *membership) endOf(topic string, partition int32) int64 {
	if m.request.follow {
		return math.MaxInt64
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ends[kafka.TopicPartition{Topic: topic, Partition: partition}]
}

// revoked is called with partitions that are no longer this member's. There is nothing to commit: what was printed is
// committed before the group may take a partition away.
func (m *membership) revoked(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	m.change(assignmentChange{taken: partitions})
}

func (m *membership) change(change assignmentChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes = append(m.changes, change)
	m.wake()
}

// poll waits for records, or for a change of the assignment: it may leave nothing to wait for.
func (m *membership) poll() (kgo.Fetches, error) {
	ctx, stop := context.WithCancel(m.client.ctx)
	defer stop()
	m.mu.Lock()
	m.wake = stop
	changed := len(m.changes) > 0
	m.mu.Unlock()
	if changed {
		stop()
	}
	return poll(ctx, m.client)
}

// settle brings the reading up to date with the assignment.
func (m *membership) settle() {
	m.mu.Lock()
	changes := m.changes
	m.changes = nil
	m.mu.Unlock()
	for _, change := range changes {
		for topic, partitions := range change.taken {
			for _, partition := range partitions {
				delete(m.owned, kafka.TopicPartition{Topic: topic, Partition: partition})
				m.reading.forget(topic, partition)
			}
		}
		m.client.ResumeFetchPartitions(change.taken) // should they come back
		for _, topic := range sortedKeys(change.given) {
			for partition, given := range change.given[topic] {
				m.owned[kafka.TopicPartition{Topic: topic, Partition: partition}] = true
				if given.note != "" {
					m.note(fmt.Sprintf("%s partition %d: %s", topic, partition, given.note))
				}
				if given.start < given.end {
					m.reading.add(topic, partition, given)
				}
			}
		}
	}
}

// finished tells whether all partitions of this member are at their ends. A member without partitions waits: it may
// have to take over.
func (m *membership) finished() bool {
	return m.reading.limit == 0 || len(m.owned) > 0 && m.reading.finished()
}

// consume prints and commits until the reading is finished. The group takes no partition away between a poll that has
// brought records and the end of its turn.
func (m *membership) consume(out *bufio.Writer) error {
	for !m.finished() {
		fetches, err := m.poll()
		if err != nil {
			return err
		}
		if fetches, err = m.withoutPassing(fetches); err != nil {
			return err
		}
		m.settle()
		idle, err := m.reading.print(fetches, out)
		if err != nil {
			return m.explain(err)
		}
		if err := m.commitPrinted(); err != nil {
			return err
		}
		m.reading.pauseFinished(m.client, fetches)
		if idle {
			m.reading.probe(m.client)
		}
		m.client.AllowRebalance()
	}
	return nil
}

// withoutPassing takes out what the group's management says of itself. What it will not recover from is an error.
func (m *membership) withoutPassing(fetches kgo.Fetches) (kgo.Fetches, error) {
	var kept kgo.Fetches
	for _, fetch := range fetches {
		var failed *kgo.ErrGroupSession
		isSession := false
		for _, topic := range fetch.Topics {
			for _, partition := range topic.Partitions {
				isSession = isSession || errors.As(partition.Err, &failed)
			}
		}
		if !isSession {
			kept = append(kept, fetch)
			continue
		}
		for _, fatal := range []error{kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.FencedInstanceID,
			kerr.InvalidGroupID, kerr.InconsistentGroupProtocol, kerr.GroupMaxSizeReached, kerr.InvalidSessionTimeout,
			kerr.UnreleasedInstanceID, kerr.UnsupportedVersion} {
			if errors.Is(failed, fatal) {
				return nil, fmt.Errorf("group %s: %w", m.request.group, failed.Err)
			}
		}
	}
	return kept, nil
}

// explain tells what to do about an offset that is committed and no longer there.
func (m *membership) explain(err error) error {
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return fmt.Errorf("%w; what group %s would go on with is gone: `firn group seek` moves it", err, m.request.group)
	}
	return err
}

// commitPrinted commits up to what was printed last.
func (m *membership) commitPrinted() error {
	offsets := m.reading.printed
	m.reading.printed = make(map[string]map[int32]kgo.EpochOffset)
	if m.request.commit == commitNone || len(offsets) == 0 {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(m.client.ctx), commitPatience)
	defer stop()
	var failure error
	m.client.CommitOffsetsSync(ctx, offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			failure = errors.Join(err, commitError(response))
		})
	if failure != nil {
		return fmt.Errorf("group %s: what was printed last could not be committed, and will be printed again: %w",
			m.request.group, failure)
	}
	return nil
}

// commitError is the first error in the answer to a commit.
func commitError(response *kmsg.OffsetCommitResponse) error {
	if response == nil {
		return nil
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return fmt.Errorf("%s partition %d: %w", topic.Topic, partition.Partition, err)
			}
		}
	}
	return nil
}
