//go:build unix

package rounds

import (
	"syscall"
	"time"
)

func init() {
	spent = func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
}
