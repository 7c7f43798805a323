package round

import (
	"github.com/p2pdiloco/p2pdiloco/internal/vector"
)

// Mode delayed starts from the anchor with this peer's own progress in it (arXiv 2502.12996, with
// the state shared):
//
//	start = theta - D_s
//
// theta steps with the previous slot's g when that arrives.
func newDelayed() Mode {
	return overlapped{ahead: func(start, own []float32, _ int) { vector.Sub(start, start, own) }}
}
