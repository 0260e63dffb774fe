// Package invariant stops the program where something is true that cannot be: a bug, not an input. Every part uses it
// beside the code whose assumption it states. It never handles what can happen, such as an I/O error or corrupt bytes:
// those are returned as errors.
package invariant
