// Package segment is the segment object, the form in which a segment of a log lies in the bucket for good: it encodes,
// decodes and verifies objects and their keys. It is used by everything in tiering that writes or reads objects. It
// never decides what is uploaded and never changes a batch.
//
// # Format, version 1
//
// All numbers are big endian; times are Unix milliseconds, −1 unknown; checksums are CRC32C (Castagnoli); ranges are
// half-open. An object is data, a tail that says all about the data, and a trailer that finds the tail:
//
//	┌──────────────────────────────────────────────────────────────┐ 0
//	│ data: record batches v2, byte for byte as in the local log   │
//	├──────────────────────────────────────────────────────────────┤ data bytes
//	│ tail: sections, in ascending order of their type             │
//	├──────────────────────────────────────────────────────────────┤ data bytes + tail bytes
//	│ trailer: 32 bytes                                            │
//	└──────────────────────────────────────────────────────────────┘
//
// Trailer, the last 32 bytes of every object that firn writes, whatever its kind:
//
//	position  size  field
//	       0     8  data bytes: length of the data, which is where the tail begins
//	       8     4  tail bytes: length of the tail, without the trailer
//	      12     4  checksum of the tail
//	      16     1  kind: 1 segment, 2 leaf, 3 node (sealed parts of the manifest), 4 checkpoint, 5 shard of one
//	      17     1  version of this kind's format: 1
//	      18     2  reserved, 0
//	      20     4  checksum of the trailer's first 20 bytes
//	      24     8  magic "firn\r\n\x1a\n"
//
// Section: an unknown one is skipped, unless the lowest bit of its flags says that the object cannot be understood
// without it. Sections 1 to 4 are always there; one of 5 to 9 that is missing is empty.
//
//	       0     2  type
//	       2     2  flags: 1 = must be understood
//	       4     4  length of what follows
//
//	type  section
//	   1  identity: cluster id 16, topic id 16, partition 4, topic name (the rest)
//	   2  range: base offset 8, end offset 8, leader epoch of the upload 4, upload id 16, log start offset at the
//	      upload 8, base offset of the indexes 8. The object answers for [base, end). The first batch may begin earlier
//	      (a log start inside a batch); between batches, before the first and after the last there may be holes.
//	   3  statistics: batches 8, records 8, min timestamp 8, max timestamp 8, its offset 8, first append time 8, last
//	      append time 8. Min timestamp is the smallest of the batches' first records.
//	   4  checksums of the data: chunk bytes 4, then 4 for each chunk; the last chunk may be shorter
//	   5  offset index: Kafka's .index entries (offset less the indexes' base offset 4, position in the data 4)
//	   6  time index: Kafka's .timeindex entries (timestamp 8, offset less the indexes' base offset 4)
//	   7  aborted transactions that overlap the range: Kafka's .txnindex entries (version 0 2, producer id 8, first
//	      offset 8, last offset 8, last stable offset 8)
//	   8  leader epochs from the log start to the end of the range: epoch 4, start offset 8
//	   9  producer state at the end of the range: a whole file in Kafka's .snapshot format
//
// Key, unique for ever, since the upload id is drawn anew for each upload (ids in hexadecimal, offsets in 20 decimal
// digits, the epoch in 10):
//
//	<cluster id>/<topic id>/<partition>/seg/<base>-<end>-<leader epoch>-<upload id>.seg
//
// Sealed parts of the manifest (package manifest) have keys of the same form, with "leaf" and "node" for "seg".
package segment
