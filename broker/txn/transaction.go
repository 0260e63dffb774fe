package txn

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/internal/kafka"
)

// Producer is a producer id with the epoch of one of its instances.
type Producer = coordinator.Producer

// NoProducer is none: of a request that does not know one, of an answer that gives none.
var NoProducer = Producer{ID: -1, Epoch: -1}

// Versions of the transaction protocol (transaction.version) that differ in how a transaction ends: below 2 the epoch
// stays, from 2 on each transaction has an epoch of its own (KIP-890).
const (
	versionClassic   int16 = 0
	versionEpochBump int16 = 2
)

// lastEpoch is the last epoch that a client is given. The one above is left for the coordinator to fence it with.
const lastEpoch = math.MaxInt16 - 1

// Transaction is what the coordinator knows of a transactional id: the value of its record, and the epoch before the
// last bump, which Kafka's record has no room for. A Transaction is a value: events make new ones, and nobody changes
// the partitions of one that is there.
type Transaction struct {
	Producer
	// LastEpoch is the epoch that its owner may still ask a new one with, if the answer got lost; −1 for none.
	LastEpoch int16
	// PreviousID is the producer id before the last change; NextID the one that follows once the markers are written,
	// because the epochs of this one are used up; −1 for none.
	PreviousID int64
	NextID     int64

	State State
	// Partitions are those that have joined, sorted; while the transaction ends, those whose marker is missing.
	Partitions []kafka.TopicPartition
	TimeoutMs  int32
	StartedMs  int64 // when the first partition joined, Unix; −1 before
	UpdatedMs  int64 // when the record was last written, Unix
	// Version is the protocol by which the client, or the coordinator in its place, brought it to where it is.
	Version int16
}

// unknown is an id that nobody has begun a producer with.
func unknown() Transaction {
	return Transaction{Producer: NoProducer, LastEpoch: -1, PreviousID: -1, NextID: -1, StartedMs: -1, UpdatedMs: -1}
}

// Decision is what comes of an event.
type Decision struct {
	// Next is the id's state from now on. If Write is set it differs from the one before and must be written to the
	// journal; the answer waits for that, also if it is an error.
	Next  Transaction
	Write bool
	// Err is what the client is told, with Kafka's code.
	Err error
	// Answer is the producer that the client goes on with, where the protocol tells it.
	Answer Producer
}

// errNeedsProducerID refuses an event for which no unused producer id was at hand. Clients ask again.
var errNeedsProducerID = fmt.Errorf("no producer id is at hand: %w", kafka.CoordinatorLoadInProgress)

func refuse(code kafka.Errno) Decision { return Decision{Err: code, Answer: NoProducer} }

// exhausted tells that the producer id has no further epoch to give to a client.
func (t Transaction) exhausted() bool { return t.Epoch >= lastEpoch }

// has tells whether a partition has joined.
func (t Transaction) has(tp kafka.TopicPartition) bool {
	_, found := slices.BinarySearchFunc(t.Partitions, tp, comparePartitions)
	return found
}

// without is the transaction without some of its partitions, which have their markers.
func (t Transaction) without(done []kafka.TopicPartition) Transaction {
	rest := make([]kafka.TopicPartition, 0, len(t.Partitions))
	for _, tp := range t.Partitions {
		if !slices.Contains(done, tp) {
			rest = append(rest, tp)
		}
	}
	t.Partitions = rest
	return t
}

func comparePartitions(a, b kafka.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// union is sorted and has each partition once.
func union(some, more []kafka.TopicPartition) []kafka.TopicPartition {
	all := slices.Concat(some, more)
	slices.SortFunc(all, comparePartitions)
	return slices.Compact(all)
}
