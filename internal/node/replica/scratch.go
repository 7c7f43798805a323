package replica

import (
	"cmp"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// scratch makes the vectors of a state. With a folder they lie in files there, which are nobody's
// after the process: a state comes from a checkpoint and outcomes, and never from them.
type scratch struct {
	fs       disk.FS // disk.OS if nil
	dir      string  // empty: the vectors are in memory alone
	elements uint64
	free     []func()
}

func (s *scratch) vector() ([]float32, error) {
	if s.dir == "" {
		return make([]float32, s.elements), nil
	}
	b, free, err := cmp.Or(s.fs, disk.OS).Scratch(s.dir, 4*int(s.elements))
	if err != nil {
		return nil, err
	}
	s.free = append(s.free, free)
	return kernel.Float32s(b), nil
}

// close gives the files' room back. Nobody reads the vectors any more.
func (s *scratch) close() {
	for _, free := range s.free {
		free()
	}
}
