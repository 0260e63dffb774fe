//go:build linux

// Package replay is a client that costs next to nothing: Produce requests that were encoded before, and a Fetch loop
// that throws away what it gets, so that on two cores the broker and not the client is the limit. It speaks to any
// broker of the Kafka protocol.
//
// It is used by integration/bench. It is no client library: it knows one broker, no retries and no groups, and takes
// any error for the end of the run.
package replay
