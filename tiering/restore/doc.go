// Package restore finds out what of a cluster comes back from the bucket alone: which topics, up to which offset, with
// which leader epochs and producers, and which committed offsets have to be moved back. `firn restore` shows the plan,
// and the root makes a node of it. It reads checkpoints, listings and the tails of segments, never data, and it writes
// nothing.
package restore
