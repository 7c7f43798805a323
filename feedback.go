package p2pdiloco

import (
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Error feedback (1-bit SGD, Seide et al. 2014; arXiv 1901.09847), with a lossy codec only: what encoding lost of a pseudo-gradient D is owed,
// and added to the next one of the same fragment. e is private to the peer, D elements:
//
//	x = e + D;  c = Q(x) is offered;  when a record lists c:  e += D - dec(c), in the segments that list this peer
//
// which is e = x - dec(c) where nothing else was agreed in between. So in every segment the sum of what was decoded from this peer, and e,
// is at any time the sum of the D that it was listed with: nothing is lost, it only comes later.
//
//   - Elsewhere e stays. A segment that lists this peer not took nothing of c: D is lost to it, as it is with any codec, and what was owed
//     before is owed still. To owe D as well would have it reduced in a later slot at full weight, however stale it is then.
//   - The same holds for an offer that no record lists. It is forgotten.
//   - What is owed must be known before the next contribution is encoded, or it would be paid twice: n.encode waits for the one under way.
//     The modes that overlap lose nothing by it: its slot is to be applied before the next offer anyway.
//   - In a process that starts, and where a state was fetched because records were missed or given up for another branch, nothing is owed:
//     one slot's rounding is lost.
//   - Outcomes are encoded without it: owners change from slot to slot (codec.Outcome).
//
// beta, by which some scale e, is 1: what is best for these codecs.
type feedback struct {
	sizes []uint64 // elements of the fragments

	mu struct {
		sync.Mutex
		debt  [][]float32 // e, by fragment; nil until something is owed
		spare []float32   // one of the buffers that residuals come in
	}
}

// newFeedback is nil for a codec that loses nothing.
func newFeedback(spec Spec, lossy bool) *feedback {
	if !lossy {
		return nil
	}
	f := &feedback{sizes: spec.fragmentElements()}
	f.mu.debt = make([][]float32, len(f.sizes))
	return f
}

// encode commits to a fragment's pseudo-gradient and what is owed, and returns D - dec(c), for advance. On nil it is plain encoding, and
// the residual is nil. gradient is not kept.
func (f *feedback) encode(p allreduce.Params, fragment int, gradient []float32) (c *allreduce.Contribution, residual []float32, err error) {
	if f == nil {
		c, err = allreduce.Encode(p, uint32(fragment), gradient)
		return c, nil, err
	}
	x := f.borrow(len(gradient))
	f.addDebt(x, fragment, gradient)
	if c, err = allreduce.Encode(p, uint32(fragment), x); err != nil {
		f.giveBack(x)
		return nil, nil, err
	}
	subtract(x, gradient, x)
	return c, x, nil
}

// addDebt sets x = e + D.
func (f *feedback) addDebt(x []float32, fragment int, gradient []float32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.mu.debt[fragment]; e != nil {
		add(x, e, gradient)
		return
	}
	copy(x, gradient)
}

// advance takes in that a record lists the contribution that residual is of, as the place-th of its contributions.
func (f *feedback) advance(record slot.Record, place int, residual []float32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.mu.debt[record.Fragment]
	if e == nil {
		e = make([]float32, f.sizes[record.Fragment])
		f.mu.debt[record.Fragment] = e
	}
	for _, s := range record.Segments {
		if s.Contributors.Has(place) {
			part := e[s.Range.Begin:s.Range.End]
			add(part, part, residual[s.Range.Begin:s.Range.End])
		}
	}
}

// forgive makes nothing owed any more. nil is allowed, as with giveBack.
func (f *feedback) forgive() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.mu.debt)
}

// borrow lends a buffer, whose values may be anything.
func (f *feedback) borrow(n int) []float32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.mu.spare
	f.mu.spare = nil
	if cap(b) < n {
		b = make([]float32, slices.Max(f.sizes))
	}
	return b[:n]
}

// giveBack ends the use of a residual.
func (f *feedback) giveBack(residual []float32) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.spare = residual
}
