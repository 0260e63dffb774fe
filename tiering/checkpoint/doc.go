// Package checkpoint keeps in the bucket what is needed to bring a cluster back from the bucket alone: it writes
// checkpoints of the metadata, reads them back, finds the segments that are newer than a checkpoint, and knows by
// claims which cluster a part of the bucket belongs to. The tier of the controller writes; restore, verification and
// readers without a broker read. It never decides what is part of a log, and never touches a segment.
//
// The formats are in format.go.
package checkpoint
