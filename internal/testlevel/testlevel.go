// Package testlevel says how much the tests try. There are three levels:
//
//   - short, with go test -short: what a run under the race detector can afford;
//   - usual, with neither: all of go test ./... takes about five minutes on 2 cores;
//   - nightly, with the environment variable P2PDILOCO_TEST=nightly: the explorers, the random
//     schedules and the long tables in full.
//
// A test that samples takes its number of samples from [Choose], and a test that is worth its time
// at night only asks [Nightly] and skips. The level changes how much is tried, never what has to
// hold.
package testlevel

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
