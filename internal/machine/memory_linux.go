package machine

import "golang.org/x/sys/unix"

// physical is the machine's memory in bytes; 0 if unknown.
func physical() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // 32 bits wide on some systems
}
