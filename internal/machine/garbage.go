package machine

import (
	"os"
	"runtime/debug"
)

// Of the heap's garbage: Go lets it grow to as much as is in use, which doubles a process whose
// heap is a few vectors. These hold no pointers, so that to collect more often costs little.
const (
	vectorAllowed  = 32 << 20 // bytes of a vector up to which Go's default stays
	garbagePercent = 100
	garbageLeast   = 25
)

// Frugal bounds the garbage of a process whose heap is mostly vectors of d float32. GOGC in the
// environment overrides it.
func Frugal(d uint64) {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent(d))
	}
}

func gcPercent(d uint64) int {
	if 4*d <= vectorAllowed {
		return garbagePercent
	}
	return max(garbageLeast, int(garbagePercent*uint64(vectorAllowed)/(4*d)))
}
