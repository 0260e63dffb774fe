package txn

import "strconv"

// State is where a transactional id stands. The numbers are those of the records of __transaction_state.
type State int8

// The states, as Kafka has them. Dead and PrepareEpochFence are never written: an id that expires is removed at once,
// and a fence is one step to PrepareAbort.
const (
	Empty          State = iota // no transaction since the producer began
	Ongoing                     // partitions have joined
	PrepareCommit               // decided; the markers are on their way
	PrepareAbort                // likewise
	CompleteCommit              // every partition has its marker
	CompleteAbort               // likewise
	Dead
	PrepareEpochFence
)

// stateNames are what DescribeTransactions answers and ListTransactions filters by.
var stateNames = [...]string{
	"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
}

// String is Kafka's name of the state.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return "state " + strconv.Itoa(int(s))
	}
	return stateNames[s]
}

// ParseState finds a state by its name; false if there is none.
func ParseState(name string) (State, bool) {
	for s, known := range stateNames {
		if known == name {
			return State(s), true
		}
	}
	return 0, false
}

// prepared tells that the outcome is decided and the partitions are being told.
func (s State) prepared() bool { return s == PrepareCommit || s == PrepareAbort }

// idle tells that there is no transaction.
func (s State) idle() bool { return s == Empty || s == CompleteCommit || s == CompleteAbort }
