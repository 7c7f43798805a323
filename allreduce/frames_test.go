package allreduce

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// Each frame is done once, whatever their number.
func TestEachFrame(t *testing.T) {
	for _, frames := range []int{1, 2, 3, 7, 100} {
		done := make([]atomic.Int32, frames)
		if err := eachFrame(frames, func(f int) error { done[f].Add(1); return nil }); err != nil {
			t.Error(err)
		}
		for f := range done {
			if n := done[f].Load(); n != 1 {
				t.Errorf("frame %d of %d is done %d times", f, frames, n)
			}
		}
	}
	err := eachFrame(50, func(f int) error {
		if f%10 == 7 {
			return fmt.Errorf("frame %d", f)
		}
		return nil
	})
	if err == nil || err.Error() != "frame 7" {
		t.Errorf("the first error is %v", err)
	}
}

// The element named is the first bad one, whichever core met one first.
func TestCommitNamesTheFirstBadElement(t *testing.T) {
	p := testParams(64*100, 100)
	v := make([]float32, 64*100)
	v[333], v[6000] = float32(math.Inf(1)), float32(math.NaN())
	for range 20 {
		for _, f := range []func() (*Contribution, error){
			func() (*Contribution, error) { return Commit(p, 0, "ada", kernel.Bytes(v)) },
			func() (*Contribution, error) { return Encode(p, 0, "ada", v, nil) },
		} {
			if _, err := f(); !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), "element 333:") {
				t.Fatal(err)
			}
		}
	}
}
