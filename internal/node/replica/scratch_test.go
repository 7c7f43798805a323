package replica

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// With a folder all vectors of the state are scratch. Once the model is closed nobody gets them,
// for they are zeros then.
func TestAStateInFiles(t *testing.T) {
	for files, want := range map[string]int{"": 0, t.TempDir(): 3} {
		made := &scratchCount{FS: disk.OS}
		m, err := openModel(Run{
			Outer:     outeropt.Config{Name: outeropt.Adam, LR: 1, Momentum: .9, Beta2: .99},
			Params:    allreduce.Params{Fragments: []uint64{1000}, FrameElements: 1000, Codec: "f32"},
			Fragments: []slot.Fragment{{Ranges: []slot.Range{{End: 1000}}}},
		}, t.TempDir(), files, checkpoint.Config{FS: made}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.state.replace(func(vectors [][]float32) (Position, error) {
			vectors[0][5] = 7
			return Position{Slot: 1}, nil
		}); err != nil {
			t.Fatal(err)
		}
		if made.vectors != want {
			t.Errorf("folder %q: %d vectors lie in files, want %d", files, made.vectors, want)
		}
		m.close()
		dst := make([]float32, 1000)
		if m.state.copyOnward(dst, Edition{}); dst[5] != 0 || made.freed != want {
			t.Errorf("folder %q: the anchor is read after the end, or %d vectors are freed", files, made.freed)
		}
		if err := m.store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// scratchCount counts vectors that lie in files.
type scratchCount struct {
	disk.FS
	vectors, freed int
}

func (c *scratchCount) Scratch(dir string, size int) ([]byte, func(), error) {
	c.vectors++
	b, free, err := c.FS.Scratch(dir, size)
	return b, func() { c.freed++; free() }, err
}
