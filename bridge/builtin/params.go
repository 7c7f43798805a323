package builtin

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// shape determines the layout and all buffers.
type shape struct {
	layers, width, heads, context, vocab int
}

func (s shape) headSize() int { return s.width / s.heads }

// params are the model's tensors: views into one flat vector, in the order of the layout. Matrices
// are (outputs x inputs), row-major. Gradients have the same form.
type params struct {
	flat   []float32
	wte    []float32 // (vocab, width): byte embeddings, and the output head
	wpe    []float32 // (context, width): position embeddings
	blocks []block
	lnf    norm
}

// block is one transformer layer.
type block struct {
	ln1  norm
	qkv  linear // width -> 3 width
	proj linear // width -> width
	ln2  norm
	up   linear // width -> 4 width
	down linear // 4 width -> width
}

// norm is a layer norm's gain and bias, (width) each.
type norm struct{ gain, bias []float32 }

// linear is a weight (out, in) and a bias (out).
type linear struct {
	weight, bias []float32
	in, out      int
}

// walk names every tensor once, in flat order. It is the only place that knows the order: the
// layout and the views into a flat vector both come from it.
func (s shape) walk(p *params, tensor func(view *[]float32, name string, dims ...int)) {
	d := s.width
	p.blocks = make([]block, s.layers)
	layerNorm := func(n *norm, name string) {
		tensor(&n.gain, name+".weight", d)
		tensor(&n.bias, name+".bias", d)
	}
	affine := func(l *linear, name string, in, out int) {
		l.in, l.out = in, out
		tensor(&l.weight, name+".weight", out, in)
		tensor(&l.bias, name+".bias", out)
	}
	tensor(&p.wte, "wte", s.vocab, d)
	tensor(&p.wpe, "wpe", s.context, d)
	for i := range p.blocks {
		b, h := &p.blocks[i], fmt.Sprintf("h.%d", i)
		layerNorm(&b.ln1, h+".ln1")
		affine(&b.qkv, h+".attn.qkv", d, 3*d)
		affine(&b.proj, h+".attn.proj", d, d)
		layerNorm(&b.ln2, h+".ln2")
		affine(&b.up, h+".mlp.up", d, 4*d)
		affine(&b.down, h+".mlp.down", 4*d, d)
	}
	layerNorm(&p.lnf, "lnf")
}

// layout lists the tensors in flat order.
func (s shape) layout() (l trainer.Layout) {
	s.walk(&params{}, func(_ *[]float32, name string, dims ...int) {
		t := trainer.Tensor{Name: name}
		for _, n := range dims {
			t.Shape = append(t.Shape, uint64(n))
		}
		l = append(l, t)
	})
	return l
}

// newParams makes all tensors, zero.
func newParams(s shape) *params {
	p := &params{flat: make([]float32, s.layout().Elements())}
	rest := p.flat
	s.walk(p, func(view *[]float32, _ string, dims ...int) {
		n := 1
		for _, k := range dims {
			n *= k
		}
		*view, rest = rest[:n:n], rest[n:]
	})
	return p
}

// initialize sets gains to 1, biases to 0 and matrices to normal values: of deviation
// 1/sqrt(width), which keeps the size of what passes through, but GPT-2's 0.02/sqrt(2 layers) for
// what writes into the residual stream. A model as narrow as this learns much faster with it than
// GPT-2's 0.02 everywhere: held-out 2.2 against 2.7 nats/byte after the default 8 rounds of 4
// peers.
func (p *params) initialize(seed uint64) {
	clear(p.flat)
	rng := rand.NewPCG(seed, 0x70327064696c6f63)
	inner := float32(1 / math.Sqrt(float64(len(p.lnf.gain))))
	residual := float32(0.02 / math.Sqrt(float64(2*len(p.blocks))))
	fillNormal(rng, p.wte, inner)
	fillNormal(rng, p.wpe, inner)
	for i := range p.blocks {
		b := &p.blocks[i]
		b.ln1.fillOnes()
		fillNormal(rng, b.qkv.weight, inner)
		fillNormal(rng, b.proj.weight, residual)
		b.ln2.fillOnes()
		fillNormal(rng, b.up.weight, inner)
		fillNormal(rng, b.down.weight, residual)
	}
	p.lnf.fillOnes()
}

func (n norm) fillOnes() {
	for i := range n.gain {
		n.gain[i] = 1
	}
}

// fillNormal draws from a sum of twelve uniform 16-bit integers, whose deviation is 65536 to ten
// digits. It is as good as normal here, and being integer arithmetic it gives the same bits on
// every machine, which logarithms do not.
func fillNormal(rng *rand.PCG, dst []float32, deviation float32) {
	const mean = 12 * 65535 / 2
	for i := range dst {
		sum := -mean
		for range 3 {
			v := rng.Uint64()
			sum += int(v&0xffff) + int(v>>16&0xffff) + int(v>>32&0xffff) + int(v>>48)
		}
		dst[i] = float32(sum) / 65536 * deviation
	}
}
