//go:build !(linux || darwin || freebsd)

package doctor

import "errors"

// Disk implements Machine.
func (Host) Disk(string) (uint64, error) { return 0, errors.ErrUnsupported }

// Files implements Machine.
func (Host) Files() (uint64, error) { return 0, errors.ErrUnsupported }
