package builtin

import (
	"math"
	"math/rand/v2"
	"testing"
)

// tinyModel has sizes that are all different, so that a mixed-up dimension shows, and parameters
// large enough for every nonlinearity to bend.
func tinyModel(threads cores) (*model, batch) {
	s := shape{layers: 2, width: 6, heads: 2, context: 5, vocab: 11}
	m := newModel(s, 4, threads)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range m.flat {
		m.flat[i] = float32(rng.NormFloat64() * 0.5)
	}
	b := batch{}
	for range 3 * s.context { // one sequence less than there is room for
		b.inputs = append(b.inputs, byte(rng.IntN(s.vocab)))
		b.targets = append(b.targets, byte(rng.IntN(s.vocab)))
	}
	return m, b
}

// slope is the central finite difference of the loss along element i.
func slope(m *model, b batch, i int) float64 {
	const eps = 4e-3
	v := m.flat[i]
	up, down := v+eps, v-eps
	m.flat[i] = up
	above := m.forward(b)
	m.flat[i] = down
	below := m.forward(b)
	m.flat[i] = v
	return (above - below) / (float64(up) - float64(down))
}

// TestGradients compares every element of every tensor's gradient with finite differences. What is
// left after a correct backward pass is float32 rounding, below 0.2% of a tensor's norm here; a
// missing or doubled term is far above.
func TestGradients(t *testing.T) {
	m, b := tinyModel(1)
	m.forward(b)
	m.backward(b)
	at := 0
	for _, tensor := range m.layout() {
		wrong, norm := 0.0, 0.0
		for range tensor.Elements() {
			want, got := slope(m, b, at), float64(m.grads.flat[at])
			wrong += (want - got) * (want - got)
			norm += want * want
			at++
		}
		off := math.Sqrt(wrong / norm)
		t.Logf("%-20s norm %.4f, off by %.5f", tensor.Name, math.Sqrt(norm), off)
		if !(off < 0.005) || norm == 0 {
			t.Errorf("gradient of %s is off by %.4f of its norm %.4f", tensor.Name, off, math.Sqrt(norm))
		}
	}
}

// The loss at a position does not depend on later bytes, and does on earlier ones.
func TestAttentionIsCausal(t *testing.T) {
	m, b := tinyModel(1)
	probs := func() []float32 { m.forward(b); return append([]float32(nil), m.logits[:m.context*m.vocab]...) }
	before := probs()
	b.inputs[2] = (b.inputs[2] + 1) % byte(m.vocab)
	after := probs()
	for position := range m.context {
		same := true
		for i := position * m.vocab; i < (position+1)*m.vocab; i++ {
			same = same && before[i] == after[i]
		}
		if want := position < 2; same != want {
			t.Errorf("position %d unchanged after byte 2 changed: %v, want %v", position, same, want)
		}
	}
}
