package metastore

import "fmt"

// Quorum is the state of the metadata quorum, as DescribeQuorum answers it.
type Quorum struct {
	// Term is raft's term: the epoch of the leader.
	Term uint64
	// Index is that of the last command that was committed and applied here.
	Index uint64
}

// Quorum tells where the metadata quorum stands.
func (s *Store) Quorum() (Quorum, error) {
	term, err := s.stable.GetUint64([]byte(currentTermKey))
	if err != nil {
		return Quorum{}, fmt.Errorf("read the term of the metadata quorum: %w", err)
	}
	return Quorum{Term: term, Index: s.Image().Index}, nil
}
