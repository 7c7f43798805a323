package disk

import (
	"errors"
	"syscall"
)

// Fault tells whether an error means that the disk takes no more writes: it is full, read-only or
// failing.
func Fault(err error) bool {
	for _, fault := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}
