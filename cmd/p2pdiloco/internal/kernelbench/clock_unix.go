//go:build linux || darwin || freebsd

package kernelbench

import (
	"time"

	"golang.org/x/sys/unix"
)

// spent is the time that this process has had on the cores, all threads together: what it waited for cores does not count.
func spent() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return time.Since(began)
	}
	return time.Duration(t.Nano())
}
