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
	shared    bool // the same slice stands for two arguments
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
		if i > 0 && r.IntN(12) == 0 {
			in.x[i], in.shared = in.x[r.IntN(i)], true
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

func (in input) finite() bool {
	return !slices.ContainsFunc(slices.Concat(append(in.x, in.scalars)...), func(v float32) bool { return v-v != 0 })
}

// sameBits says whether the two are the same to the bit. Which NaN it is does not count: that is
// not the same on all architectures, nor from one compiler to the next.
func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

func TestSwitch(t *testing.T) {
	had := SetFast(false)
	defer SetFast(had)
	if fast.Load() || SetFast(true) {
		t.Error("switched off, the fast paths are in use")
	}
	if fast.Load() != hasFast() {
		t.Errorf("switched on, Fast is %v where there is a fast path: %v", fast.Load(), hasFast())
	}
}

// The environment switches the fast paths off as a program starts.
func TestEnvironment(t *testing.T) {
	const child = "KERNEL_TEST_CHILD"
	if os.Getenv(child) != "" {
		fmt.Println("fast:", fast.Load())
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
