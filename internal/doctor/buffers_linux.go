package doctor

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// Buffers implements Machine.
func (Host) Buffers() (receive, send uint64, err error) {
	receive, err = number("/proc/sys/net/core/rmem_max")
	send, err2 := number("/proc/sys/net/core/wmem_max")
	return receive, send, errors.Join(err, err2)
}

// number reads a file with a number in it.
func number(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

// Load is how many processes run or wait for a core, in the mean of the last minute; 0: unknown.
func Load() (load float64) {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	load, _ = strconv.ParseFloat(first, 64)
	return load
}
