package bench

import (
	"os"
	"runtime/pprof"
)

// Profile begins a CPU profile in a file, which end ends; nothing if the path is empty.
func Profile(path string) (end func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, pprof.StartCPUProfile(f)
}
