//go:build !linux

package doctor

import "errors"

// Buffers implements Machine.
func (Host) Buffers() (receive, send uint64, err error) { return 0, 0, errors.ErrUnsupported }

// Load is 0: unknown.
func Load() float64 { return 0 }
