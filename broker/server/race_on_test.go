//go:build race

package server

// raceEnabled says that the race detector is on: it allocates on its own account.
const raceEnabled = true
