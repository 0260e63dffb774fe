package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

const seekHelp = `where to: start, end, an offset, +N (N after the start) or -N (N before the end); with @ in front the
first record of a time: Unix ms, 2013-01-31, RFC 3339, -2h (ago)`

// seekRequest is the command line of `group seek`.
type seekRequest struct {
	group   string
	choice  partitionChoice
	to      string
	shift   int64
	toGroup string
	execute bool

	offsets offsetRange // what --to means
}

func groupSeekCommand() *cobra.Command {
	var request seekRequest
	cmd := &cobra.Command{
		Use:   "seek GROUP [TOPIC[:PARTITION,…]…]",
		Short: "Show where a group without members would go on reading, and with --execute move it there",
		Long: "Show, as a plan, where a group would go on reading; with --execute commit those offsets. Without topics\n" +
			"the plan covers every partition in which the group has committed an offset (--to-group: the other group).\n\n" +
			"A group that has members is refused: they would go on from where they are and commit over it.",
		Example: "  firn group seek billing --to start\n" +
			"  firn group seek billing payments:0,3 --to @2013-01-13 --execute\n" +
			"  firn group seek billing --shift -100 --execute\n" +
			"  firn group seek billing-canary --to-group billing --execute",
		Args: takes(cobra.MinimumNArgs(1)),
	}
	brokers := addBrokerFlag(cmd)
	cmd.Flags().StringVar(&request.to, "to", "", seekHelp)
	cmd.Flags().Int64Var(&request.shift, "shift", 0, "move by this many offsets from where the group is; below 0 back")
	cmd.Flags().StringVar(&request.toGroup, "to-group", "", "to the offsets of this other group")
	cmd.Flags().BoolVar(&request.execute, "execute", false, "commit the offsets instead of showing them only")
	completeFlag(cmd, "to", "start", "end", "-10", "@-1h", "@-1d")
	cmd.ValidArgsFunction = completeGroups(brokers, 1, completeTopics(brokers, 0))
	return printing(cmd, func(cmd *cobra.Command, args []string) (*seekPlan, error) {
		if err := request.check(args, cmd.Flags().Changed); err != nil {
			return nil, usageError{cmd.CommandPath(), err}
		}
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		return request.run(client)
	})
}

// check reads what needs no cluster.
func (s *seekRequest) check(args []string, given func(flag string) bool) (err error) {
	s.group = args[0]
	if s.choice, err = parsePartitionChoice(args[1:]); err != nil {
		return err
	}
	switch {
	case given("to") && given("shift"), given("to") && given("to-group"), given("shift") && given("to-group"):
		return errors.New("--to, --shift and --to-group exclude each other")
	case given("to"):
		if s.offsets, err = parseOffsetRange(s.to, time.Now()); err == nil && s.offsets.bounded {
			err = fmt.Errorf("--to %q is a range: give the one place where reading is to go on", s.to)
		}
		return err
	case given("shift"), given("to-group"):
		return nil
	}
	return errors.New("where to? give --to, --shift or --to-group")
}

// seekPlan is where a group would go, or has gone.
type seekPlan struct {
	Group      string          `json:"group"`
	Executed   bool            `json:"executed"`
	Partitions []seekPartition `json:"partitions"`
}

type seekPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed *int64 `json:"committed_offset"` // null: none
	Offset    int64  `json:"offset"`           // where reading is to go on
	Lag       int64  `json:"lag"`              // from there
	Note      string `json:"note,omitempty"`
	Status    string `json:"status"`
	Error     string `json:"error,omitempty"`
}

func (s *seekRequest) run(client *session) (*seekPlan, error) {
	if err := refuseLiveGroup(client, s.group); err != nil {
		return nil, err
	}
	committed, err := committedOffsets(client, s.group)
	if err != nil {
		return nil, err
	}
	model := committed
	if s.toGroup != "" {
		if model, err = committedOffsets(client, s.toGroup); err != nil {
			return nil, err
		}
	}
	targets, err := s.targets(client, model)
	if err != nil {
		return nil, err
	}
	borders, err := listBorders(client, s.offsets, readUncommitted, slices.Collect(maps.Keys(targets)))
	if err != nil {
		return nil, err
	}
	plan, err := s.plan(targets, committed, model, borders)
	if err != nil || !s.execute {
		return plan, err
	}
	return plan, plan.execute(client)
}

// refuseLiveGroup makes sure that nobody reads as this group. A group that does not exist yet comes into being with the
// offsets.
func refuseLiveGroup(client *session, name string) error {
	described, err := describeGroup(client, name)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	if err == nil && described.State != stateEmpty {
		err = fmt.Errorf("group %s is %s with %s: stop them first, `firn group describe` shows who they are", name,
			described.State, counted(len(described.Members), "member"))
	}
	return err
}

// targets are the partitions that the plan is about.
func (s *seekRequest) targets(client *session, model kadm.OffsetResponses) (map[string][]int32, error) {
	targets := make(map[string][]int32)
	if len(s.choice) == 0 || s.toGroup != "" {
		model.Each(func(o kadm.OffsetResponse) {
			if s.choice.has(o.Topic, o.Partition) {
				targets[o.Topic] = append(targets[o.Topic], o.Partition)
			}
		})
		if len(targets) == 0 && s.toGroup != "" {
			return nil, noOffsets(s.toGroup, s.choice)
		}
		if len(targets) == 0 {
			return nil, fmt.Errorf("%w; name the topics to begin with", noOffsets(s.group, s.choice))
		}
		return targets, nil
	}
	topics, err := findTopics(client.ctx, client.admin, sortedKeys(s.choice))
	if err != nil {
		return nil, err
	}
	if err := s.choice.check(topics); err != nil {
		return nil, err
	}
	for topic, partitions := range s.choice {
		if partitions == nil {
			partitions = topics[topic].Partitions.Numbers()
		}
		targets[topic] = partitions
	}
	return targets, nil
}

// plan turns the targets into offsets.
func (s *seekRequest) plan(targets map[string][]int32, committed, model kadm.OffsetResponses, borders listedBorders,
) (*seekPlan, error) {
	plan := &seekPlan{Group: s.group, Partitions: []seekPartition{}}
	for _, topic := range sortedKeys(targets) {
		for _, partition := range slices.Sorted(slices.Values(targets[topic])) {
			found, err := borders.of(topic, partition)
			if err != nil {
				return nil, err
			}
			move := seekPartition{Topic: topic, Partition: partition, Status: "would be moved"}
			if now, ok := committed.Lookup(topic, partition); ok {
				move.Committed = &now.At
			}
			from := s.offsets
			if s.to == "" {
				base, ok := model.Lookup(topic, partition)
				if !ok {
					return nil, fmt.Errorf("group %s has no committed offset in %s partition %d to shift: give --to", s.group,
						topic, partition)
				}
				from.from = border{kind: atOffset, value: shifted(base.At, s.shift)}
			}
			resolved := from.resolve(found)
			move.Offset, move.Lag, move.Note = resolved.start, found.end-resolved.start, resolved.note
			plan.Partitions = append(plan.Partitions, move)
		}
	}
	return plan, nil
}

// shifted moves an offset without leaving the range of offsets.
func shifted(offset, by int64) int64 {
	if by > math.MaxInt64-offset {
		return math.MaxInt64
	}
	return max(offset+by, 0)
}

// execute commits the offsets.
func (p *seekPlan) execute(client *session) error {
	p.Executed = true
	offsets := make(kadm.Offsets)
	for _, move := range p.Partitions {
		offsets.AddOffset(move.Topic, move.Partition, move.Offset, -1)
	}
	answers, err := client.admin.CommitOffsets(client.ctx, p.Group, offsets)
	if err != nil {
		return fmt.Errorf("commit offsets of group %s: %w", p.Group, err)
	}
	return p.settle(answers)
}

// settle notes what the cluster has answered.
func (p *seekPlan) settle(answers kadm.OffsetResponses) error {
	var failed []error
	for i := range p.Partitions {
		move := &p.Partitions[i]
		answer, ok := answers.Lookup(move.Topic, move.Partition)
		err := errors.Join(answer.Err, missingAnswer(ok))
		if errors.Is(err, kerr.UnknownMemberID) { // what a broker answers whoever commits from outside of a live group
			err = fmt.Errorf("the group has members now, stop them first: %w", err)
		}
		move.Status = "moved"
		if err != nil {
			move.Status, move.Error = "failed", err.Error()
			failed = append(failed, fmt.Errorf("move group %s in %s partition %d: %w", p.Group, move.Topic, move.Partition, err))
		}
	}
	return failures("partition", len(p.Partitions), failed)
}

func (p *seekPlan) writeText(w io.Writer) error {
	header := []string{"TOPIC", "PARTITION", "COMMITTED", "TO", "LAG", "STATUS"}
	noted := slices.ContainsFunc(p.Partitions, func(m seekPartition) bool { return m.Note != "" })
	if noted {
		header = append(header, "NOTE")
	}
	rows := make([][]string, 0, len(p.Partitions))
	for _, move := range p.Partitions {
		row := []string{move.Topic, strconv.Itoa(int(move.Partition)), known(move.Committed), decimal(move.Offset),
			decimal(move.Lag), statusText(move.Status, move.Error)}
		if noted {
			row = append(row, move.Note)
		}
		rows = append(rows, row)
	}
	if err := table(w, header, rows); err != nil || p.Executed {
		return err
	}
	_, err := fmt.Fprintln(w, "\nThis is a plan, nothing was changed: --execute moves the group.")
	return err
}
