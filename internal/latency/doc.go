// Package latency measures open loops: a Schedule says when each operation should begin, a Histogram holds how long
// after that it was over. Latency that counts from the intended start includes the wait behind a slow operation, which
// a client that waits for its answers would leave out (coordinated omission).
//
// It is used by the bench of the command line and by integration/bench. It does no I/O and starts no goroutine.
package latency
