package reducebench

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
)

// profile is a CPU profile of the measured rounds, if there is to be one.
type profile struct {
	path string
	file *os.File
}

// begin starts it, once.
func (p *profile) begin() (err error) {
	if p.path == "" || p.file != nil {
		return nil
	}
	if p.file, err = os.Create(p.path); err != nil {
		return err
	}
	return pprof.StartCPUProfile(p.file)
}

func (p *profile) stop() error {
	if p.file == nil {
		return nil
	}
	pprof.StopCPUProfile()
	return p.file.Close()
}

// peakMemory is the largest memory use of the process, in bytes; 0 if the system does not say. On
// Linux getrusage would include the use of its parent from before the exec.
func peakMemory() uint64 {
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

func profilePath(dir, name string, index int) string {
	if dir == "" {
		return ""
	}
	return fmt.Sprintf("%s/%s-%d.pprof", dir, name, index)
}
