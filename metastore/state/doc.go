// Package state is a broker's own Pebble database: key spaces of bytes with plain access, atomic batches, snapshots and
// one way to make everything written so far durable.
//
// The state machine (metastore), storage and tiering keep their state in it, each in spaces of its own and in its own
// encoding; raftlog runs the raft log on a second database of the same kind. The package knows spaces and bytes, never
// what they mean; it never syncs a write unless asked.
package state
