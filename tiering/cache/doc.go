// Package cache keeps parts of segment objects on the local disk, within a bound and as long as the disk has room. The
// tier's reader asks it before it asks the bucket, and sends from its files as from those of a log.
//
// Its list is in the state database, so that it survives a restart and no directory is ever walked; nothing of it need
// be durable, since whatever does not fit its checksum is dropped. It never downloads anything, and no failure of it is
// one of a read.
//
// Metrics: firn_tier_cache_{hits,misses,fills,evictions,corrupt,failures}_total, firn_tier_cache_{bytes,off}.
package cache
