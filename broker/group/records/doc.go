// Package records is the record formats of __consumer_offsets: Kafka's own, so that its tools read them. A key is an
// int16 that says which kind of record it is, and what it is about; a value is an int16 version and its fields. Of
// those that kmsg has (OffsetCommitValue, GroupMetadataValue) the values are kmsg's; those of KIP-848 are here. The
// coordinator and the machines of the group protocols use it. It knows nothing of journals or of what the records
// mean.
package records
