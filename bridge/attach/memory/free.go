package memory

import "github.com/p2pdiloco/p2pdiloco/internal/node/replica"

// Free is how much memory a process here may still take.
func Free() uint64 { return replica.FreeMemory() }
