//go:build race

package api

// underRace: the race detector makes pools forget and so adds allocations that are not ours to count.
const underRace = true
