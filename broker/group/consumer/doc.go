// Package consumer is the state machine of one group of the consumer protocol (KIP-848): a heartbeat comes in, records
// and an answer go out. The group has an epoch, which grows with each change of members, subscriptions or topics, a
// target assignment, computed for an epoch by broker/group/assignor, and members, each of which goes to the target at
// its own pace: it gives up partitions before it gets others, and gets no partition that somebody else still has.
// Members of the classic protocol take part, too. broker/group runs it. It reads no clock, takes no lock, waits for
// nobody.
package consumer
