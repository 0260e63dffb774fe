// Package objectstore is the bucket behind the tier: Bucket with its implementations (Memory, Directory, and S3 over
// either of two libraries) and the wrappers that add one concern each: Prefixed, Retrying, Instrumented, Faulty. Open
// makes one from a URL, OpenForReading one that only reads.
//
// It is used by tiering and by the composition root. It knows keys and bytes, never topics or segments, and it never
// decides what may be overwritten or deleted. Package objectstoretest is the test that every implementation passes.
package objectstore
