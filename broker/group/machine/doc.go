// Package machine is what the state machines of the group protocols and the coordinator say to each other: an event
// goes into a machine, a Step comes out, which says what to append to the journal and whom to answer. The machines
// (broker/group/classic, broker/group/consumer) implement Group, broker/group runs them. Nothing here reads a clock,
// takes a lock or waits.
package machine
