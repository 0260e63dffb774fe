package coordinator

import "math"

// PartitionOf is the partition of an internal topic whose leader coordinates a group or a transactional id: the
// absolute value of Java's String.hashCode, modulo the number of partitions. The smallest int has none; Kafka takes 0.
func PartitionOf(id string, partitions int32) int32 {
	var hash int32
	for _, unit := range id {
		if unit > math.MaxUint16 { // as a pair of surrogates
			unit -= 0x10000
			hash = 31*hash + (0xd800 + unit>>10)
			unit = 0xdc00 + unit&0x3ff
		}
		hash = 31*hash + unit
	}
	switch {
	case hash == math.MinInt32:
		return 0
	case hash < 0:
		hash = -hash
	}
	return hash % partitions
}
