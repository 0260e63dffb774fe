// Package network is where connections come from: TCP, or a network in memory whose hosts can be cut off from each
// other and whose links can be slow. The server listens on it, and whatever talks to other nodes dials through it.
// Everything in memory blocks durably in the sense of testing/synctest, so whole clusters run in a bubble with fake
// time. It carries bytes only and knows no protocol.
package network
