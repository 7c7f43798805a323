package audit

import (
	"math/rand/v2"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// sampleBytes is how many bytes of the outcome, and of a contribution, a sample has, at most.
const sampleBytes = 16 << 10

// Sample is a part of a segment that is checked as one: up to 16 KiB of the bytes in either codec,
// within one frame, in whole blocks of both.
type Sample struct{ Range slot.Range }

// sampleElements is the number of elements of a sample that no frame cuts short. It divides a frame
// about evenly, so that each element is as likely to be in a sample.
func (g grids) sampleElements() int {
	units := up(g.in.FrameElements, g.unit())
	unit := max(g.in.Codec.EncodedSize(g.unit()), g.out.Codec.EncodedSize(g.unit()))
	most := max(1, sampleBytes/unit)
	return up(units, up(units, most)) * g.unit()
}

// up is n/d, rounded up.
func up(n, d int) int { return (n + d - 1) / d }

// inFrame is the number of samples of a frame of so many elements.
func (g grids) inFrame(elements int) int {
	return up(elements, g.sampleElements())
}

// SampleCount is how many samples a segment has: together they are all of it.
func (s *Segment) SampleCount() int {
	first, last := s.in.FramesOf(s.Range)
	return (last-first-1)*s.inFrame(s.in.FrameElements) + s.inFrame(s.in.FrameLen(last-1))
}

// sample is the i-th one.
func (s *Segment) sample(i int) Sample {
	each := s.inFrame(s.in.FrameElements)
	frame := s.in.Elements(s.first+i/each, s.first+i/each+1)
	size := uint64(s.sampleElements())
	begin := frame.Begin + uint64(i%each)*size
	return Sample{slot.Range{Begin: begin, End: min(begin+size, frame.End)}}
}

// Samples draws n samples without repetition: each set and order is as likely. All of them, in
// order, if n is at least their number. rnd must be secret until the owner has signed.
func (s *Segment) Samples(n int, rnd *rand.Rand) []Sample {
	count := s.SampleCount()
	if n >= count {
		all := make([]Sample, count)
		for i := range all {
			all[i] = s.sample(i)
		}
		return all
	}
	drawn := make([]Sample, 0, max(0, n))
	seen := make(map[int]bool, max(0, n))
	for i := count - n; i < count; i++ { // Floyd's algorithm
		k := rnd.IntN(i + 1)
		if seen[k] {
			k = i
		}
		seen[k] = true
		drawn = append(drawn, s.sample(k))
	}
	rnd.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return drawn
}

// FrameAt is the whole frame with an element of the segment. Openings of it show whether the norms
// that contributors have committed to are true.
func (s *Segment) FrameAt(element uint64) Sample {
	f := int(element / uint64(s.in.FrameElements))
	return Sample{s.in.Elements(f, f+1)}
}
