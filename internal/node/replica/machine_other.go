//go:build !linux

package replica

import "math"

func physical() uint64 { return 0 }

// FreeMemory is how much memory a process here may still take. It is not known on this system.
func FreeMemory() uint64 { return math.MaxUint64 }
