package bench

import (
	"os"
	"strconv"
	"strings"
)

// PeakMemory is the largest memory use of the process, in bytes; 0 if the system does not say. On
// Linux getrusage would include the use of its parent from before the exec.
func PeakMemory() uint64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0
			}
			return kb << 10
		}
	}
	return 0
}
