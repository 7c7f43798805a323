// Package machine says how much memory this machine has, and bounds the garbage beside a model.
package machine

import (
	"os"
	"runtime/debug"
)

// Memory is the machine's memory in bytes; 0 if unknown.
func Memory() uint64 { return physical() }

// Of the heap's garbage: Go lets it grow to as much as is in use, which doubles a process whose
// heap is a few vectors. These hold no pointers, so that to collect more often costs little.
const (
	vectorAllowed  = 32 << 20 // bytes of a vector up to which Go's default stays
	garbagePercent = 100
	garbageLeast   = 25
)

// Frugal bounds the garbage of a process whose heap is mostly vectors of d float32. It allows no
// more than before, and GOGC in the environment overrides it.
func Frugal(d uint64) {
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	if before := debug.SetGCPercent(gcPercent(d)); before < gcPercent(d) {
		debug.SetGCPercent(before)
	}
}

func gcPercent(d uint64) int {
	if 4*d <= vectorAllowed {
		return garbagePercent
	}
	return max(garbageLeast, int(garbagePercent*uint64(vectorAllowed)/(4*d)))
}
