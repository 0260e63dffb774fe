// Package txn is the transaction coordinator: producer ids and epochs, what belongs to a transaction, its outcome, and
// the markers that tell the partitions. A transactional id is a pure state machine (Transaction: an event in, a
// Decision out); a Coordinator keeps those of the journals that this broker leads, on a coordinator.Runtime, with
// Kafka's records in __transaction_state. It answers what is committed to the journal, and nothing before.
//
// The handlers of broker/api call it, and so do the paths of produce and of TxnOffsetCommit. It never touches a log
// itself: markers go out through the Markers that the node gives it.
package txn
