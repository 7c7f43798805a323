package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// Profile is a CPU profile of what a process of a benchmark measures, if there is to be one.
type Profile struct {
	Path string // of the file; empty: there is to be none
	file *os.File
}

// Begin starts it, once.
func (p *Profile) Begin() (err error) {
	if p.Path == "" || p.file != nil {
		return nil
	}
	if p.file, err = os.Create(p.Path); err != nil {
		return err
	}
	return pprof.StartCPUProfile(p.file)
}

// End writes the file, if Begin has started one.
func (p *Profile) End() error {
	if p.file == nil {
		return nil
	}
	pprof.StopCPUProfile()
	return p.file.Close()
}

// ProfilePath is the file for a process of that name in dir; empty if dir is.
func ProfilePath(dir, name string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name+".pprof")
}

// ProfileFolder makes the folder that a flag --profile names, and returns its absolute path.
func ProfileFolder(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	path, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(path, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("--profile: %w", err)
	}
	return path, nil
}
