package vfs

import "golang.org/x/sys/unix"

// MaxDescriptors is how many files and connections this process may have open. Go raises the soft limit to the hard one
// at its start. A system that does not tell is taken for one with the usual 1024.
func MaxDescriptors() int {
	const usual = 1024
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return usual
	}
	const atMost = 1 << 20                     // what is more than this need not be told apart
	return int(min(uint64(limit.Cur), atMost)) //nolint:unconvert // its type differs from system to system
}
