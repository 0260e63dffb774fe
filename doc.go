// Package firn is the composition root: Config is what a node is started with, and a node is made of it by handing each
// part what it needs. The binary (cmd/firn) uses it, and so does a Go program that embeds a broker in its tests.
// Everything that a part decides by itself lies in that part's package, never here.
package firn
