//go:build !linux

package memory

import "math"

// Free is how much memory a process here may still take. It is not known on this system.
func Free() uint64 { return math.MaxUint64 }
