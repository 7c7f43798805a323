package embed

import (
	"errors"
	"fmt"
	"sync"
)

// seed are the initial parameters, in the caller's memory, in case this peer founds the run.
type seed struct {
	mu struct {
		sync.Mutex
		params []float32 // nil once they must not be read any more
	}
}

func newSeed(params []float32) *seed {
	s := &seed{}
	s.mu.params = params
	return s
}

// write is a Config.Init.
func (s *seed) write(dst []float32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := len(s.mu.params); n {
	case 0:
		return errors.New("the initial parameters were given back when the first anchor was taken: join anew to " +
			"found a run")
	case len(dst):
		copy(dst, s.mu.params)
		return nil
	default:
		return fmt.Errorf("%d initial parameters were given to join, the model has %d", n, len(dst))
	}
}

// drop gives the parameters back to the caller. Nothing reads them after it.
func (s *seed) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.params = nil
}
