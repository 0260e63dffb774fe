// Package events makes records that look like somebody's data out of lines of text, for those who measure: a codec
// finds in them about what it finds in real events, and a seed makes the same ones again.
//
// It is used by the bench of the command line and by integration/bench. It does no I/O of its own.
package events
