// Package group is the group coordinator: it keeps the groups of the journals that this broker leads (partitions of
// __consumer_offsets), runs their state machines (broker/group/classic and broker/group/consumer), keeps their timers
// and answers their members, and keeps the offsets they commit. broker/api hands it decoded requests;
// broker/coordinator keeps its journals and views. What it answers is below the high watermark. It knows no sockets,
// no logs and no other broker.
package group
