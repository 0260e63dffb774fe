//go:build !linux

package vfs

// ReadAhead does nothing here: the system reads ahead as it likes.
func ReadAhead(File, int64, int64) {}

// WriteBehind does nothing here: the system writes when it likes.
func WriteBehind(File, int64, int64) {}
