// Package retention decides which old records may go, and lets them go: by time, by size and by log start offset, of
// the whole log and, where the bucket has a copy, of the local part alone. The policy is pure functions over values;
// Enforcer is the loop that applies it. The root package runs it and tells it what a log is; it never touches files,
// the metastore or the bucket itself.
package retention
