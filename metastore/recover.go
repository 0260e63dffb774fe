package metastore

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/firnlog/firn/metastore/state"
)

// recover checks at the start that log, snapshots and state fit each other. The state database was written unsynced,
// so a power cut may have taken it back to any earlier index, which the log makes good; but it must never know more
// than the log and its snapshots, and together they must have no gap.
func (s *Store) recover() error {
	applied, err := appliedIndex(s.options.State)
	if err != nil {
		return err
	}
	first, last := s.logRange()
	snapshots, err := s.snapshots.List()
	if err != nil {
		return err
	}
	if len(snapshots) == 0 {
		switch {
		case applied > last:
			return fmt.Errorf("the metadata log in %s ends at %d, but the state has %d commands of it: "+
				"put the log's folder back as it was", s.options.Dir, last, applied)
		case last == 0:
			return s.bootstrap()
		case first > 1:
			return fmt.Errorf("the metadata log in %s begins at %d and has no snapshot: put the folder back as it was",
				s.options.Dir, first)
		}
		return s.clearUnfinished(applied)
	}
	return s.recoverFromSnapshot(applied, snapshots[0])
}

func (s *Store) logRange() (first, last uint64) {
	// Both are kept in memory and cannot fail; raft's interface has the error.
	first, _ = s.log.FirstIndex()
	last, _ = s.log.LastIndex()
	return first, last
}

func (s *Store) recoverFromSnapshot(applied uint64, newest *raft.SnapshotMeta) error {
	first, last := s.logRange()
	switch {
	case applied > max(last, newest.Index):
		return fmt.Errorf("the metadata log in %s ends at %d, but the state has %d commands of it: "+
			"put the log's folder back as it was", s.options.Dir, max(last, newest.Index), applied)
	case last > newest.Index && first > newest.Index+1:
		return fmt.Errorf("the metadata log in %s begins at %d, but its snapshot ends at %d: "+
			"put the folder back as it was", s.options.Dir, first, newest.Index)
	case applied >= newest.Index:
		return nil
	}
	// The snapshot's index counts entries that are no commands, too: only its header tells what its state has applied.
	_, source, err := s.snapshots.Open(newest.ID)
	if err != nil {
		return err
	}
	_, index, err := openSnapshot(source)
	if err = errors.Join(err, source.Close()); err != nil {
		return err
	}
	s.restoreAtStart = applied < index
	return s.clearUnfinished(applied)
}

// clearUnfinished empties the replicated spaces if a restore was cut short: it removed the applied index first.
func (s *Store) clearUnfinished(applied uint64) error {
	if applied != 0 {
		return nil
	}
	batch := s.options.State.NewBatch()
	defer batch.Close()
	for _, space := range state.ReplicatedSpaces() {
		batch.DeleteRange(space, state.Range{})
	}
	return batch.Commit(state.Unsynced)
}

// currentTermKey is raft's key of its term in the stable store.
const currentTermKey = "CurrentTerm"

// bootstrap begins the log with a configuration of which this node is the only voter. They are the two writes of
// raft's BootstrapCluster, which refuses to be repeated when a crash came between them.
func (s *Store) bootstrap() error {
	term, err := s.stable.GetUint64([]byte(currentTermKey))
	if err != nil {
		return err
	}
	if term == 0 {
		if err := s.stable.SetUint64([]byte(currentTermKey), 1); err != nil {
			return err
		}
	}
	id := serverID(s.options.NodeID)
	configuration := raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: id, Address: raft.ServerAddress(id)},
	}}
	entry := &raft.Log{
		Index: 1, Term: max(term, 1), Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(configuration),
	}
	if err := s.log.StoreLog(entry); err != nil {
		return err
	}
	return s.clearUnfinished(0)
}
