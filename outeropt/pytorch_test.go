package outeropt

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

const (
	torchElements = 2048
	torchSteps    = 20
)

// noise gives the stream of values that testdata/pytorch.py makes.
func noise() func() float32 {
	x := uint32(1)
	return func() float32 {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		return math.Float32frombits(x&0x807fffff | (112+x>>23&15)<<23)
	}
}

func randoms(next func() float32, n int) []float32 {
	v := make([]float32, n)
	for j := range v {
		v[j] = next()
	}
	return v
}

func equalBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for j := range want {
		if g, w := math.Float32bits(got[j]), math.Float32bits(want[j]); g != w {
			t.Fatalf("%s: element %d is %v (%08x), want %v (%08x)", what, j, got[j], g, want[j], w)
		}
	}
}

// torchCase is one run of an optimizer of PyTorch's.
type torchCase struct {
	cfg   Config
	steps []uint32             // CRC-32 of parameters and state after each step
	last  map[string][]float32 // "params" and the vectors of state after the last
}

func readTorch(t *testing.T) (cases []*torchCase) {
	f, err := os.Open("testdata/pytorch.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		if word == "case" {
			cases = append(cases, &torchCase{last: map[string][]float32{}})
		}
		if word != "#" {
			cases[len(cases)-1].read(t, word, rest)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

func (c *torchCase) read(t *testing.T, word, rest string) {
	t.Helper()
	var err error
	switch word {
	case "case":
		_, err = fmt.Sscan(rest, &c.cfg.Name, &c.cfg.LR, &c.cfg.Momentum, &c.cfg.Beta2)
	case "step":
		var n int
		var crc uint32
		_, err = fmt.Sscanf(rest, "%d %x", &n, &crc)
		c.steps = append(c.steps, crc)
	default:
		var b []byte
		b, err = hex.DecodeString(rest)
		c.last[word] = kernel.Float32s(b)
	}
	if err != nil {
		t.Fatalf("line %s %.40s: %v", word, rest, err)
	}
}

// Every step of every case must have the bits of PyTorch's.
func TestEqualsPyTorch(t *testing.T) {
	cases := readTorch(t)
	if len(cases) < 4 {
		t.Fatalf("%d cases: want SGD, SGD with momentum, Nesterov and Adam", len(cases))
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s lr=%v momentum=%v", c.cfg.Name, c.cfg.LR, c.cfg.Momentum), func(t *testing.T) {
			opt, err := New(c.cfg, torchElements)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.steps) != torchSteps || len(c.last) != 1+len(opt.State()) {
				t.Fatalf("%d steps and %d vectors in the file", len(c.steps), len(c.last))
			}
			next := noise()
			params := randoms(next, torchElements)
			wrong := 0
			for i, want := range c.steps {
				opt.Step(params, randoms(next, torchElements), At{Step: uint64(i) + 1})
				if got := checksum(params, opt.State()); got != want && wrong == 0 {
					wrong = i + 1
				}
			}
			equalBits(t, "params", params, c.last["params"])
			for i, v := range opt.State() {
				equalBits(t, "state", v, c.last[fmt.Sprint("state", i)])
			}
			if wrong != 0 {
				t.Errorf("step %d is the first with other bits", wrong)
			}
		})
	}
}

func checksum(params []float32, state [][]float32) uint32 {
	crc := crc32.ChecksumIEEE(kernel.Bytes(params))
	for _, v := range state {
		crc = crc32.Update(crc, crc32.IEEETable, kernel.Bytes(v))
	}
	return crc
}
