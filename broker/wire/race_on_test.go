//go:build race

package wire

// raceEnabled says that the race detector is on: it allocates on its own account, and so do slices made in its presence.
const raceEnabled = true
