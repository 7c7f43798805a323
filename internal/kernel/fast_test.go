package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// pair is a kernel and its plain loop. x are vectors of equal length, s some scalars; the result is
// what does not go to a vector.
type pair struct {
	name        string
	vectors     int
	fast, plain func(x [][]float32, s []float32) float64
}

// run makes a pair of kernels that only write vectors.
func run(name string, vectors int, fast, plain func(x [][]float32, s []float32)) pair {
	with := func(f func(x [][]float32, s []float32)) func(x [][]float32, s []float32) float64 {
		return func(x [][]float32, s []float32) float64 { f(x, s); return 0 }
	}
	return pair{name, vectors, with(fast), with(plain)}
}

func adamOf(s []float32) Adam {
	return Adam{Beta1: s[0], Beta2: s[1], Rest1: s[2], Rest2: s[3], Size: s[4], Root: s[5], Eps: s[6]}
}

func elementwisePairs() []pair {
	return []pair{
		run("Sub", 3, func(x [][]float32, _ []float32) { Sub(x[0], x[1], x[2]) },
			func(x [][]float32, _ []float32) { subGo(x[0], x[1], x[2]) }),
		run("Add", 3, func(x [][]float32, _ []float32) { Add(x[0], x[1], x[2]) },
			func(x [][]float32, _ []float32) { addGo(x[0], x[1], x[2]) }),
		run("Mul", 3, func(x [][]float32, _ []float32) { Mul(x[0], x[1], x[2]) },
			func(x [][]float32, _ []float32) { mulGo(x[0], x[1], x[2]) }),
		run("Mix", 3, func(x [][]float32, _ []float32) { Mix(x[0], x[1], x[2], 0.3) },
			func(x [][]float32, _ []float32) { mixGo(x[0], x[1], x[2], 0.3, 1-float32(0.3)) }),
		run("SGDStep", 2, func(x [][]float32, s []float32) { SGDStep(x[0], x[1], s[0]) },
			func(x [][]float32, s []float32) { sgdGo(x[0], x[1], s[0]) }),
		run("MomentumStep", 3, func(x [][]float32, s []float32) { MomentumStep(x[0], x[1], x[2], s[0], s[1]) },
			func(x [][]float32, s []float32) { momentumGo(x[0], x[1], x[2], s[0], s[1]) }),
		run("NesterovStep", 3, func(x [][]float32, s []float32) { NesterovStep(x[0], x[1], x[2], s[0], s[1]) },
			func(x [][]float32, s []float32) { nesterovGo(x[0], x[1], x[2], s[0], s[1]) }),
		run("DelayedStep", 3, func(x [][]float32, s []float32) { DelayedStep(x[0], x[1], x[2], s[0]) },
			func(x [][]float32, s []float32) { delayedGo(x[0], x[1], x[2], s[0]) }),
		run("DelayedMomentumStep", 4, func(x [][]float32,
			s []float32,
		) {
			DelayedMomentumStep(x[0], x[1], x[2], x[3], s[0], s[1], s[2])
		},
			func(x [][]float32, s []float32) { delayedMomentumGo(x[0], x[1], x[2], x[3], s[0], s[1], s[2]) }),
		run("AdamStep", 4, func(x [][]float32, s []float32) { AdamStep(x[0], x[1], x[2], x[3], adamOf(s)) },
			func(x [][]float32, s []float32) { a := adamOf(s); adamGo(x[0], x[1], x[2], x[3], &a) }),
		{
			"NormSq", 1, func(x [][]float32, _ []float32) float64 { return NormSq(x[0]) },
			func(x [][]float32, _ []float32) float64 {
				var l [8]float64
				normSqGo(&l, x[0])
				return combine(&l)
			},
		},
		{
			"Dot", 2, func(x [][]float32, _ []float32) float64 { return Dot(x[0], x[1]) },
			func(x [][]float32, _ []float32) float64 {
				var l [8]float64
				dotGo(&l, x[0], x[1])
				return combine(&l)
			},
		},
		{
			"Bounded", 1, func(x [][]float32, _ []float32) float64 { return float64(Bounded(x[0])) },
			func(x [][]float32, _ []float32) float64 { return float64(boundedGo(x[0])) },
		},
	}
}

// reducePair is the mean (k = -1) or the trimmed mean of n columns.
func reducePair(n, k int) pair {
	if k < 0 {
		return run(fmt.Sprint("MeanInto N=", n), n+1, func(x [][]float32, s []float32) { MeanInto(x[0], x[1:], s[:n]) },
			func(x [][]float32, s []float32) { meanGo(x[0], x[1:], s[:n], 0) })
	}
	return run(fmt.Sprint("TrimmedMeanInto N=", n, " k=", k), n+1,
		func(x [][]float32, s []float32) { TrimmedMeanInto(x[0], x[1:], s[:n], k) },
		func(x [][]float32, s []float32) { trimmedMeanGo(x[0], x[1:], s[:n], k, 0) })
}

// special are values at which arithmetic takes other ways.
var special = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
	math.MaxFloat32, -math.MaxFloat32,
	math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1p-126, 0x1.fffffcp-127, Limit, -Limit, 0x1.fffffep99,
	1e30, -1e30,
}

// draw is a value: with this probability a special one or a subnormal one, else any of moderate
// size, or of any bits.
func draw(r *rand.Rand, strange float64, wild bool) float32 {
	switch {
	case r.Float64() < strange:
		if r.IntN(3) == 0 {
			return math.Float32frombits(r.Uint32() & 0x807fffff)
		}
		return special[r.IntN(len(special))]
	case wild:
		return math.Float32frombits(r.Uint32())
	default:
		return math.Float32frombits(r.Uint32()&0x807fffff | (107+r.Uint32()&31)<<23)
	}
}

// input is vectors of one length and scalars; the vectors are cut, at any alignment, from memory
// that is compared whole.
type input struct {
	memory, x [][]float32
	scalars   []float32
}

func newInput(r *rand.Rand, vectors, n int) input {
	in := input{x: make([][]float32, vectors)}
	strange, wild := []float64{0, 0, 0.002, 0.05, 0.5}[r.IntN(5)], r.IntN(4) == 0
	for i := range in.x {
		begin := 16 + r.IntN(16)
		m := make([]float32, begin+n+16)
		for j := range m {
			m[j] = draw(r, strange, wild)
		}
		in.memory = append(in.memory, m)
		in.x[i] = m[begin:][:n]
		if i > 0 && r.IntN(12) == 0 { // the same slice may stand for two arguments
			in.x[i] = in.x[r.IntN(i)]
		}
	}
	for range max(vectors, 8) {
		s := draw(r, strange/8, false)
		if strange == 0 {
			s = r.Float32()
		}
		in.scalars = append(in.scalars, s)
	}
	return in
}

// clone copies the memory and cuts the same vectors from it.
func (in input) clone() input {
	c := input{scalars: in.scalars, x: make([][]float32, len(in.x))}
	for _, m := range in.memory {
		c.memory = append(c.memory, slices.Clone(m))
	}
	for i, v := range in.x {
		if len(v) == 0 {
			continue
		}
		for k, m := range in.memory {
			if at := cap(m) - cap(v); at < len(m) && at >= 0 && &m[at] == &v[0] {
				c.x[i] = c.memory[k][at:][:len(v)]
			}
		}
	}
	return c
}

// sameBits says whether the two are the same to the bit. Which NaN it is does not count: that is
// not the same on all architectures, nor from one compiler to the next.
func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// comparePair runs both and compares all memory and the result.
func comparePair(t *testing.T, p pair, in input) {
	t.Helper()
	plain := in.clone()
	got, want := p.fast(in.x, in.scalars), p.plain(plain.x, plain.scalars)
	n := len(in.x[0])
	if math.Float64bits(got) != math.Float64bits(want) && (got == got || want == want) {
		t.Fatalf("%s of %d elements: %v, the plain loop gives %v", p.name, n, got, want)
	}
	for i := range in.memory {
		for j, v := range in.memory[i] {
			if w := plain.memory[i][j]; !sameBits(v, w) {
				t.Fatalf("%s of %d elements: element %d of vector %d's memory is %v (%08x), the plain loop gives %v "+
					"(%08x)",
					p.name, n, j, i, v, math.Float32bits(v), w, math.Float32bits(w))
			}
		}
	}
}

// Every fast path gives the bits of its plain loop, at every length and alignment, for whatever
// values, and writes nowhere else.
func TestFastIsPlain(t *testing.T) {
	defer SetFast(SetFast(true))
	if !Fast() {
		t.Log("this build or processor has no fast path: plain loops are compared with themselves")
	}
	r := rand.New(rand.NewPCG(5, 6))
	lengths := func(yield func(int) bool) {
		for n := range 140 {
			if !yield(n) {
				return
			}
		}
		for range 60 {
			if !yield(r.IntN(1100)) {
				return
			}
		}
	}
	for _, p := range elementwisePairs() {
		t.Run(p.name, func(t *testing.T) {
			for n := range lengths {
				comparePair(t, p, newInput(r, p.vectors, n))
			}
		})
	}
	for n := 1; n <= 17; n++ {
		for k := -1; 2*k < n; k++ {
			p := reducePair(n, k)
			t.Run(p.name, func(t *testing.T) {
				for range 40 {
					comparePair(t, p, newInput(r, p.vectors, r.IntN(400)))
				}
			})
		}
	}
}

func TestSwitch(t *testing.T) {
	had := SetFast(false)
	defer SetFast(had)
	if Fast() || SetFast(true) {
		t.Error("switched off, the fast paths are in use")
	}
	if Fast() != hasFast() {
		t.Errorf("switched on, Fast is %v where there is a fast path: %v", Fast(), hasFast())
	}
}

// The environment switches the fast paths off as a program starts.
func TestEnvironment(t *testing.T) {
	const child = "KERNEL_TEST_CHILD"
	if os.Getenv(child) != "" {
		fmt.Println("fast:", Fast())
		return
	}
	for value, want := range map[string]string{"go": "fast: false", "": fmt.Sprint("fast: ", hasFast() && !raced)} {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEnvironment$")
		c.Env = append(os.Environ(), child+"=1", Environment+"="+value)
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want+"\n") {
			t.Errorf("%s=%q: %v, %s", Environment, value, err, out)
		}
	}
}
