// Package bench puts load on a Kafka cluster and measures what its clients see: Load produces at a fixed rate or as
// fast as it goes, EndToEnd also receives what was produced and looks for what is missing or came twice. Latency counts
// from when a record was due, so that a slow answer also counts for the records that had to wait behind it.
//
// `firn bench` uses it: that parses flags, makes clients and topics, and prints. This package knows no flags and makes
// no connections of its own.
package bench
