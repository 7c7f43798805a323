//go:build linux || darwin || freebsd

package kernelbench

import (
	"time"

	"golang.org/x/sys/unix"
)

// spent is the CPU time of this process, of all threads together, without waiting for a core.
func spent() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return time.Since(began)
	}
	return time.Duration(t.Nano())
}
