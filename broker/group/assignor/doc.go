// Package assignor says which member of a KIP-848 group reads which partitions: uniform, which is balanced and sticky,
// and range, which gives a member the same numbers of all topics. broker/group/consumer uses it. Assignors are
// functions of values: equal input, equal output, whatever the order of maps; they know nothing of epochs, timers or
// clients.
package assignor
