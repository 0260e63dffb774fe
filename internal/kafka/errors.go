package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Errno is an error code of the Kafka protocol. As an error it is a domain error that travels unchanged to the
// client: wrap it with what was being done, and CodeOf finds it again at the edge.
type Errno int16

// The codes that firn answers, under the protocol's names.
const (
	None                               Errno = 0
	UnknownServerError                 Errno = -1
	OffsetOutOfRange                   Errno = 1
	CorruptMessage                     Errno = 2
	UnknownTopicOrPartition            Errno = 3
	LeaderNotAvailable                 Errno = 5
	NotLeaderOrFollower                Errno = 6
	RequestTimedOut                    Errno = 7
	MessageTooLarge                    Errno = 10
	OffsetMetadataTooLarge             Errno = 12
	CoordinatorLoadInProgress          Errno = 14
	CoordinatorNotAvailable            Errno = 15
	NotCoordinator                     Errno = 16
	InvalidTopic                       Errno = 17
	RecordListTooLarge                 Errno = 18
	NotEnoughReplicas                  Errno = 19
	NotEnoughReplicasAppended          Errno = 20
	InvalidRequiredAcks                Errno = 21
	IllegalGeneration                  Errno = 22
	InconsistentGroupProtocol          Errno = 23
	InvalidGroupID                     Errno = 24
	UnknownMemberID                    Errno = 25
	InvalidSessionTimeout              Errno = 26
	RebalanceInProgress                Errno = 27
	InvalidCommitOffsetSize            Errno = 28
	TopicAuthorizationFailed           Errno = 29
	InvalidTimestamp                   Errno = 32
	IllegalSASLState                   Errno = 34
	UnsupportedVersion                 Errno = 35
	TopicAlreadyExists                 Errno = 36
	InvalidPartitions                  Errno = 37
	InvalidReplicationFactor           Errno = 38
	InvalidReplicaAssignment           Errno = 39
	InvalidConfig                      Errno = 40
	NotController                      Errno = 41
	InvalidRequest                     Errno = 42
	UnsupportedForMessageFormat        Errno = 43
	PolicyViolation                    Errno = 44
	OutOfOrderSequenceNumber           Errno = 45
	DuplicateSequenceNumber            Errno = 46
	InvalidProducerEpoch               Errno = 47
	InvalidTxnState                    Errno = 48
	InvalidProducerIDMapping           Errno = 49
	InvalidTransactionTimeout          Errno = 50
	ConcurrentTransactions             Errno = 51
	TransactionCoordinatorFenced       Errno = 52
	TransactionalIDAuthorizationFailed Errno = 53
	OperationNotAttempted              Errno = 55
	KafkaStorageError                  Errno = 56
	LogDirNotFound                     Errno = 57
	UnknownProducerID                  Errno = 59
	NonEmptyGroup                      Errno = 68
	GroupIDNotFound                    Errno = 69
	FetchSessionIDNotFound             Errno = 70
	InvalidFetchSessionEpoch           Errno = 71
	TopicDeletionDisabled              Errno = 73
	FencedLeaderEpoch                  Errno = 74
	UnknownLeaderEpoch                 Errno = 75
	UnsupportedCompressionType         Errno = 76
	OffsetNotAvailable                 Errno = 78
	MemberIDRequired                   Errno = 79
	PreferredLeaderNotAvailable        Errno = 80
	GroupMaxSizeReached                Errno = 81
	FencedInstanceID                   Errno = 82
	EligibleLeadersNotAvailable        Errno = 83
	ElectionNotNeeded                  Errno = 84
	NoReassignmentInProgress           Errno = 85
	GroupSubscribedToTopic             Errno = 86
	InvalidRecord                      Errno = 87
	UnstableOffsetCommit               Errno = 88
	ThrottlingQuotaExceeded            Errno = 89
	ProducerFenced                     Errno = 90
	UnknownTopicID                     Errno = 100
	BrokerIDNotRegistered              Errno = 102
	InconsistentTopicID                Errno = 103
	TransactionalIDNotFound            Errno = 105
	FetchSessionTopicIDError           Errno = 106
	FencedMemberEpoch                  Errno = 110
	UnreleasedInstanceID               Errno = 111
	UnsupportedAssignor                Errno = 112
	StaleMemberEpoch                   Errno = 113
	MismatchedEndpointType             Errno = 114
	UnsupportedEndpointType            Errno = 115
	TransactionAbortable               Errno = 120
	InvalidRegularExpression           Errno = 128
)

// Error prints the protocol's name of the code and what it means.
func (e Errno) Error() string {
	if known := kerr.TypedErrorForCode(int16(e)); known != nil && known.Code == int16(e) {
		return fmt.Sprintf("%s: %s", known.Message, known.Description)
	}
	return fmt.Sprintf("Kafka error code %d", int16(e))
}

// Name is the protocol's name of the code, as metrics label it: NONE, NOT_LEADER_OR_FOLLOWER, ….
func (e Errno) Name() string {
	switch e {
	case None:
		return "NONE"
	case NotLeaderOrFollower:
		return "NOT_LEADER_OR_FOLLOWER" // as it has been called since followers answer fetches
	}
	if known := kerr.TypedErrorForCode(int16(e)); known != nil && known.Code == int16(e) {
		return known.Message
	}
	return fmt.Sprintf("CODE_%d", int16(e))
}

// Retriable tells whether a client that gets the code may send the same request again.
func (e Errno) Retriable() bool {
	known := kerr.TypedErrorForCode(int16(e))
	return known != nil && known.Retriable
}

// CodeOf finds the code an error carries. No error is None; an error without a code is UnknownServerError.
func CodeOf(err error) Errno {
	if err == nil {
		return None
	}
	var code Errno
	if errors.As(err, &code) {
		return code
	}
	return UnknownServerError
}
