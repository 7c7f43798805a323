package testutil

import (
	"os"
	"runtime/debug"
	"testing"
)

// Tests make much garbage and keep little: collected less often, it takes a fifth less time.
func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// Nightly tells whether P2PDILOCO_TEST=nightly is set.
func Nightly() bool { return os.Getenv("P2PDILOCO_TEST") == "nightly" }

// Choose gives the amount for the level of this run. Nightly wins over short.
func Choose[T any](short, usual, nightly T) T {
	switch {
	case Nightly():
		return nightly
	case testing.Short():
		return short
	default:
		return usual
	}
}
