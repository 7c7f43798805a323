package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lukechampine.com/blake3"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// noise fills a vector of n elements with values of magnitude 2^-20 to 2^12, made from integers so
// that the inputs are the same on every architecture.
func noise(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for j := range x {
		b := r.Uint32()
		x[j] = math.Float32frombits(b&0x807fffff | (107+b>>23&31)<<23)
	}
	return x
}

// golden returns the outputs of every kernel on fixed inputs, one line a kernel: name and BLAKE3 of
// its bits.
func golden() string {
	const n = 100_003
	r := rand.New(rand.NewPCG(1, 2))
	var out strings.Builder
	line := func(name string, x ...[]float32) {
		h := blake3.New(32, nil)
		for _, v := range x {
			_, _ = h.Write(Bytes(v))
		}
		fmt.Fprintf(&out, "%s %x\n", name, h.Sum(nil))
	}
	dst, p, v, g := make([]float32, n), noise(r, n), noise(r, n), noise(r, n)
	Sub(dst, p, g)
	line("Sub", dst)
	Mul(dst, p, g)
	line("Mul", dst)
	SGDStep(p, g, 0.7)
	line("SGDStep", p)
	MomentumStep(p, v, g, 0.7, 0.9)
	line("MomentumStep", p, v)
	NesterovStep(p, v, g, 0.7, 0.9)
	line("NesterovStep", p, v)
	line("Delayed", delayed(p, v, g)...)
	line("AdamStep", adam(p, g)...)

	var cols [][]float32
	var squares []float64
	var weights []uint64
	var norms strings.Builder
	for i := range 9 {
		cols = append(cols, noise(r, n))
		squares = append(squares, NormSq(cols[i]))
		weights = append(weights, r.Uint64())
		fmt.Fprintf(&norms, "%016x", math.Float64bits(squares[i]))
	}
	fmt.Fprintf(&out, "NormSq %x\n", blake3.Sum256([]byte(norms.String())))
	fmt.Fprintf(&out, "Dot %016x\n", math.Float64bits(Dot(cols[0], cols[1])))
	clip, scale := ClipScales(squares), MeanScales(weights)
	line("ClipScales", clip)
	line("MeanScales", scale)
	MeanInto(dst, cols, scale)
	line("MeanInto", dst)
	for k := range 5 {
		TrimmedMeanInto(dst, cols, clip, k)
		line(fmt.Sprint("TrimmedMeanInto k=", k), dst)
	}
	TrimmedMeanInto(dst, cols[:8], clip[:8], 3)
	line("MedianInto N=8", dst)
	Mix(dst, p, g, 0.3)
	line("Mix", dst)
	Add(dst, p, g)
	line("Add", dst)
	for _, q := range quantisers {
		enc := make([]byte, q.size(n))
		q.encode(enc, g)
		fmt.Fprintf(&out, "Encode%s %x\n", q.name, blake3.Sum256(enc))
		if at := q.decode(dst, enc); at >= 0 {
			fmt.Fprintf(&out, "Decode%s refuses %d\n", q.name, at)
		}
		line("Decode"+q.name, dst)
	}
	return out.String()
}

// delayed is two slots of delayed Nesterov, on copies.
func delayed(p, v, g []float32) [][]float32 {
	p, v, b := slices.Clone(p), slices.Clone(v), make([]float32, len(p))
	DelayedStep(p, b, g, 3, 0.35)
	sum := slices.Clone(b)
	DelayedMomentumStep(p, v, b, g, 2, 0.2, 0.7, 0.9, 0.25)
	return [][]float32{p, v, b, sum}
}

// adam is a few steps of Adam, on a copy.
func adam(p, g []float32) [][]float32 {
	p, m, v := slices.Clone(p), make([]float32, len(p)), make([]float32, len(p))
	for _, step := range []uint64{1, 2, 3, 1000, 1<<32 + 7} {
		AdamStep(p, m, v, g, AdamAt(0.01, 0.9, 0.99, 1e-8, step))
	}
	return [][]float32{p, m, v}
}

// Every architecture must give the committed bits. A change here is a change of Version.
func TestGolden(t *testing.T) {
	had := SetFast(false)
	defer SetFast(had)
	plain := golden()
	SetFast(true)
	got := golden()
	if got != plain {
		t.Errorf("the fast paths give\n%sthe plain loops\n%s", got, plain)
	}
	testutil.Golden(t, "testdata/golden.txt", got)
}
