// Package compaction removes from a log the records whose key has a newer one (KIP-58, KIP-354, KIP-534): a pass maps
// the keys of what was not cleaned yet to their last offsets, and writes the sealed segments anew without what is
// superseded. The root package joins it to the logs of storage and runs its pool of workers. It never touches the
// active segment, what lies above the last stable offset, a file, or the replication of a log.
package compaction
