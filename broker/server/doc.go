// Package server is the network side of a broker: listeners, connections, limits, the order of replies, and sending
// without copying. Each connection reads one frame at a time and hands the request to the one dispatch function it was
// given; what may wait is written later, in order. The composition root starts it; it knows the protocol only as far
// as frames and headers go (broker/wire), and never what an API does, nor logs, nor cluster metadata.
package server
