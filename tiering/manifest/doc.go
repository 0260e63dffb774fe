// Package manifest answers questions about which segments of a partition are remote, by pure look-ups over the entries
// that the metastore keeps: where an offset or a time is. It is used by tiering's fetches. It does no I/O and knows no
// clock.
//
// The newest entries of a partition, its head, are kept one by one. The oldest are later sealed into immutable leaf
// objects and those into nodes; both have their kind in the trailer that ends every object (package segment: 2 leaf,
// 3 node) and in the encoding of an entry (metastore/command). That is why everything here works on runs of entries.
package manifest
