// Package record is Kafka's record batch, format version 2: a view that reads and patches a batch in place, the checks
// a broker makes before it stores a producer's batch, iteration over records, building, and the codecs.
// The wire view, the log, replication, tiering and the command line use it. It never reads files or sockets, never
// assigns offsets by itself, and never copies a batch unless a topic setting demands another encoding.
package record
