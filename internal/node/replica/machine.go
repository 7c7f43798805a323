package replica

import (
	"os"
	"runtime/debug"
)

// MachineMemory is how many bytes of memory a process here may take, by the machine and by its
// control groups; 0 if unknown.
func MachineMemory() uint64 { return physical() }

// GarbageBeside is how many bytes of it a process keeps beside a model whose vectors have so many
// bytes each. Go lets garbage grow to as much as is in use, which doubles a process whose heap is a
// few vectors. These hold no pointers, so that a collection costs the same however large they are:
// what counts is that there are few, and so many bytes are made in several slots.
func GarbageBeside(vector uint64) uint64 { return max(leastGarbage, vector/8) }

const leastGarbage = 32 << 20

// LimitGarbage has a process whose heap has live bytes in use, most of them in vectors of so many
// bytes, keep no more than Garbage beside them. It allows no more than before, and GOGC in the
// environment overrides it. Vectors that the start has left, as of the root of an initial state, go
// at once: beside vectors in files the heap might not grow as far as the next collection.
func LimitGarbage(vector, live uint64) {
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	if before := debug.SetGCPercent(gcPercent(vector, live)); before < gcPercent(vector, live) {
		debug.SetGCPercent(before)
	}
	if vector > leastGarbage {
		debug.FreeOSMemory()
	}
}

// gcPercent is at most Go's default.
func gcPercent(vector, live uint64) int { return int(min(max(100*GarbageBeside(vector)/live, 1), 100)) }
