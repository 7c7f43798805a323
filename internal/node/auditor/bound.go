package auditor

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// addSuspicious adds a sample of each segment that has a frame above the bound: no honest owner has
// one. That costs no message: the norms are in what the contributors have committed to. It reads
// the outcome once, on all cores.
func (j *job) addSuspicious() error {
	var next atomic.Int64
	errs := make([]error, min(runtime.GOMAXPROCS(0), len(j.segments)))
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			values := make([]float32, j.cfg.Params.FrameElements)
			for i := next.Add(1) - 1; i < int64(len(j.segments)) && errs[w] == nil; i = next.Add(1) - 1 {
				errs[w] = j.addBeyond(j.segments[i], values)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// addBeyond adds a sample of a segment if it has a frame above its bound, or one that no encoder
// writes. values is room for one frame. Of a segment whose contributors' commitments are not all
// known here there is no bound.
func (j *job) addBeyond(s *segment, values []float32) error {
	leaves, ok := j.leavesOf(s)
	if !ok {
		leaves = nil
	}
	r, err := j.aboveBound(s, leaves, j.out, values)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Len() > 0 && !slices.Contains(s.samples, r) {
		s.samples = append(s.samples, r)
	}
	return nil
}

// leavesOf is what all contributors to a segment have committed to, where that is known here.
func (j *job) leavesOf(s *segment) (all [][]slot.FrameLeaf, ok bool) {
	for _, o := range s.Offers {
		leaves, ok := j.cfg.Leaves(o)
		if !ok {
			return nil, false
		}
		all = append(all, leaves)
	}
	return all, true
}

// aboveBound finds the first frame above its bound; empty: there is none. Frames are not verified:
// what a disk has changed is found when the sample is compared.
func (j *job) aboveBound(s *segment, leaves [][]slot.FrameLeaf, c codec.Codec, values []float32) (none slot.Range,
	err error,
) {
	held, err := j.cfg.Segment(s.Root)
	if err != nil {
		return none, err
	}
	defer held.Close()
	size := uint64(j.cfg.Params.FrameElements)
	norms := make([]float64, len(leaves))
	var frame []byte
	for f := s.Range.Begin / size; f*size < s.Range.End; f++ {
		r := slot.Range{Begin: f * size, End: min((f+1)*size, s.Range.End)}
		if frame, err = readRange(held, s, r, frame); err != nil {
			return none, err
		}
		part := values[:r.Len()]
		if err := c.Decode(part, frame); err != nil {
			return r, nil //nolint:nilerr // no honest owner signs such bytes
		}
		for i, l := range leaves {
			if f >= uint64(len(l)) {
				return none, errors.New("a contributor has committed to fewer frames")
			}
			norms[i] = l[f].NormSq
		}
		if kernel.BoundedMean(part) >= 0 || len(leaves) > 0 && !(kernel.NormSq(part) <= s.Bound(norms)) {
			return r, nil
		}
	}
	return none, nil
}
