// Package demo shows firn's main job on real events: produce through the Kafka protocol, watch segments seal and sink
// into the bucket, drop the local copies, and read everything back, byte for byte the same, before and after a restart,
// and after a restore from the bucket alone. `firn demo` uses it. It knows a node only by its addresses (Node), speaks
// to it only as any client would, and looks into its files only to remove them.
package demo
