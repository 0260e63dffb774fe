// Package classic is the state machine of one group of the classic protocol: members join, the group chooses a leader,
// the leader assigns partitions, the others sync, all of them heartbeat (KIP-62, KIP-134, KIP-345, KIP-394, KIP-814).
// An event goes in, a machine.Step comes out. broker/group owns the groups, carries the steps out and keeps the time.
//
// It never reads a clock, waits, appends to a journal or knows of offsets. Nobody but its caller guards it: one event
// at a time. Each waiter that it is given is answered exactly once.
package classic
