// Package coordinator is what the group and the transaction coordinator have in common: a journal, which is a partition
// of an internal topic in Kafka's own record formats, and a view of it, which holds the newest record of each key in
// the state database together with the journal offset it has applied. Taking over a partition costs what was written
// since. The view is written from the journal alone, below the high watermark, in one way: at the start and ever after.
//
// It knows no record format and no protocol: those are the coordinators', whose state in memory a Shard guards.
package coordinator
