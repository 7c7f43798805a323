//go:build !(linux || darwin || freebsd)

package kernelbench

import "time"

// spent is wall-clock time, for want of better.
func spent() time.Duration { return time.Since(began) }
