// Package machine says how large a model this machine can hold. Go ends a process that allocates
// too much, so callers ask before they allocate a model. It also bounds the garbage beside the
// model.
package machine

import (
	"fmt"
	"os"
	"runtime/debug"
)

// nodeVectors are the vectors of D float32 that a node keeps.
const nodeVectors = 5

// Holds returns an error if this machine cannot hold a node's vectors of d elements. If the size of
// its memory is unknown, Holds refuses nothing.
func Holds(d uint64) error {
	if limit := physical(); limit > 0 && d > limit/4/nodeVectors {
		return fmt.Errorf("the model has %d elements: a node keeps %d vectors of them, and this machine has %d MiB "+
			"of memory",
			d, nodeVectors, limit>>20)
	}
	return nil
}

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
