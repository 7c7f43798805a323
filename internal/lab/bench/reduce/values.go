package reduce

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
)

// fill sets dst to elements from, from+1, … of a peer's pseudo-gradient: uniform within ±1/1000,
// and the same wherever it is computed.
func fill(dst []float32, peer int, from uint64) {
	for j := range dst {
		dst[j] = value(peer, from+uint64(j))
	}
}

// value is splitmix64 of the peer and the index, its upper 24 bits as a fraction.
func value(peer int, index uint64) float32 {
	z := (uint64(peer+1)<<40 ^ index) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return (float32(z>>40)/(1<<23) - 1) / 1000
}

// encoded is a peer's whole contribution in the case's codec.
func (c Case) encoded(k codec.Codec, peer int) []byte {
	b := make([]byte, 0, k.EncodedSize(int(c.Elements)))
	frame := make([]float32, c.frame())
	for at := uint64(0); at < c.Elements; at += c.frame() {
		x := frame[:min(c.frame(), c.Elements-at)]
		fill(x, peer, at)
		b = k.Append(b, x)
	}
	return b
}

// reference computes a frame of the outcome in float64 from the decoded contributions, with plain
// loops. The kernels must come close to it. Another check makes sure that all peers have the same
// bits.
type reference struct {
	c       Case
	codec   codec.Codec // of contributions
	outcome codec.Codec
	cols    [][]float32
}

func newReference(c Case, k codec.Codec) *reference {
	r := &reference{c: c, codec: k, outcome: codec.Outcome(k), cols: make([][]float32, c.Members)}
	for i := range r.cols {
		r.cols[i] = make([]float32, c.frame())
	}
	return r
}

// check returns the largest distance of an encoded frame of the outcome, which begins at element
// from, from the reference, and the distance that is allowed.
func (r *reference) check(encoded []byte, from uint64) (worst, allowed float64, err error) {
	n := int(min(r.c.frame(), r.c.Elements-from))
	got := make([]float32, n)
	if err := r.outcome.Decode(got, encoded); err != nil {
		return 0, 0, err
	}
	scale := make([]float64, r.c.Members)
	for i := range r.cols {
		x := r.cols[i][:n]
		fill(x, i, from)
		if err := r.codec.Decode(x, r.codec.Append(nil, x)); err != nil {
			return 0, 0, err
		}
		for _, v := range x {
			scale[i] += float64(v) * float64(v)
		}
	}
	r.scales(scale)
	want := make([]float32, n)
	values := make([]float64, r.c.Members)
	for j := range n {
		for i := range values {
			values[i] = scale[i] * float64(r.cols[i][j])
		}
		want[j] = float32(r.aggregate(values))
	}
	back := make([]float32, n)
	if err := r.outcome.Decode(back, r.outcome.Append(nil, want)); err != nil {
		return 0, 0, err
	}
	allowed = 1e-9 // of values of up to a thousandth: some roundings of float32
	for j := range n {
		// a codec may round to the next step
		allowed = max(allowed, 3*math.Abs(float64(back[j])-float64(want[j])))
		worst = max(worst, math.Abs(float64(got[j])-float64(want[j])))
	}
	return worst, allowed, nil
}

// scales turns squared norms into the factor of each contribution.
func (r *reference) scales(s []float64) {
	if !r.c.params().Clip {
		for i := range s {
			s[i] = 1
		}
		return
	}
	sorted := slices.Sorted(slices.Values(s))
	median := (math.Sqrt(sorted[(len(s)-1)/2]) + math.Sqrt(sorted[len(s)/2])) / 2
	for i := range s {
		s[i] = min(1, median/math.Sqrt(s[i]))
	}
}

func (r *reference) aggregate(values []float64) (sum float64) {
	k := 0
	switch allreduce.Aggregator(r.c.Aggregator) {
	case allreduce.TrimmedMean:
		k = allreduce.Trim(trimPermille, len(values))
	case allreduce.Median:
		k = (len(values) - 1) / 2
	case allreduce.Mean:
	}
	slices.Sort(values)
	for _, v := range values[k : len(values)-k] {
		sum += v
	}
	return sum / float64(len(values)-2*k)
}
