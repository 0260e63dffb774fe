//go:build !linux

package background

// lowerPriority does nothing: there is no portable way to lower the priority of one thread.
func lowerPriority() {}
