// Package purgatory holds operations that wait for a condition or a deadline: an acks=all produce for the high
// watermark, a fetch for min.bytes, a join for the rest of its group. Each waits on keys, such as partitions; whoever
// changes what belongs to a key calls Check. Every operation completes exactly once. There is no polling and no
// goroutine per operation: what completes one runs on the goroutine that made its condition true, or on its timer.
package purgatory
