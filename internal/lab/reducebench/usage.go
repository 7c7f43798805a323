package reducebench

import (
	"fmt"
	"os"
	"runtime/pprof"
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

func profilePath(dir, name string, index int) string {
	if dir == "" {
		return ""
	}
	return fmt.Sprintf("%s/%s-%d.pprof", dir, name, index)
}
