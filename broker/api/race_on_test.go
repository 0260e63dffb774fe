//go:build race

package api

// raceEnabled: the race detector makes pools forget and so adds allocations that are not ours to count.
const raceEnabled = true
