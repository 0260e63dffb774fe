package metastore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/firnlog/firn/metastore/command"
)

// proposal is a command on its way into the log.
type proposal struct {
	data []byte
	done chan applied // has room for the answer, so that nobody waits for a caller who has left
}

// flight is a proposal that raft has taken.
type flight struct {
	proposal *proposal
	future   raft.ApplyFuture
}

// Propose appends a command to the log and returns its result once it is applied and every watcher has been told, so
// that what it created can be seen. A refusal of the state machine is an error with a Kafka code, possibly next to a
// result (see package command). On ErrUnknownOutcome, which also follows a ctx that ends while the command is under
// way, the command may be applied or not; after any other error of Propose itself it is not.
func (s *Store) Propose(ctx context.Context, cmd command.Command) (any, error) {
	start := time.Now()
	p := &proposal{data: command.Encode(cmd), done: make(chan applied, 1)}
	// A command that this program could not read back would stop the state machine, here and at every restart.
	if _, err := command.Decode(p.data); err != nil {
		return nil, fmt.Errorf("propose %s: %w", cmd.Type(), err)
	}
	select {
	case s.proposals <- p:
	case <-s.stopping:
		return nil, fmt.Errorf("propose %s: %w", cmd.Type(), ErrStopped)
	case <-ctx.Done():
		return nil, fmt.Errorf("propose %s: %w", cmd.Type(), ctx.Err())
	}
	select {
	case outcome := <-p.done:
		s.metrics.proposed(start)
		return outcome.result, outcome.err
	case <-ctx.Done():
		return nil, fmt.Errorf("propose %s: %w (%w)", cmd.Type(), ErrUnknownOutcome, ctx.Err())
	}
}

// submit hands proposals to raft, which writes those that arrive together to the log together.
func (s *Store) submit(quorum *raft.Raft, inFlight chan<- flight) {
	defer close(inFlight)
	for {
		select {
		case p := <-s.proposals:
			inFlight <- flight{proposal: p, future: quorum.ApplyLog(raft.Log{Data: p.data}, 0)}
		case <-s.stopping:
			return
		}
	}
}

// answer waits for each proposal in the order of the log.
func (s *Store) answer(inFlight <-chan flight) {
	for f := range inFlight {
		f.proposal.done <- s.outcome(f.future)
	}
}

func (s *Store) outcome(future raft.ApplyFuture) applied {
	err := future.Error()
	switch {
	case err == nil:
		outcome := future.Response().(*applied)
		<-outcome.told
		return *outcome
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return applied{err: ErrNotLeader}
	default:
		// Leadership lost, or the log could not be written: the entry may be there, or on another voter.
		return applied{err: fmt.Errorf("%w: %w", ErrUnknownOutcome, err)}
	}
}
