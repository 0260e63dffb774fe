// Package wire is the Kafka protocol as bytes: the table of served APIs and versions, request headers, bounded decoding
// of request bodies into kmsg types, the in-place view of a Produce request, and responses as lists of chunks (bytes or
// file regions). broker/server reads frames with it, broker/api decodes requests and encodes responses with it.
// It never touches a connection, a log or cluster metadata, and it never copies record data.
package wire
