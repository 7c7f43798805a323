package builtin

import (
	"math"
	"strings"
	"testing"
)

func TestDefaultSizes(t *testing.T) {
	if n := (Config{}).Parameters(); n != 139680 {
		t.Errorf("the default model has %d parameters, want 139680", n)
	}
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero value is refused: %v", err)
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	bad := Config{
		Layers: -1, Width: 5000, Heads: -1, Context: -3, Batch: 1 << 20, HeldOut: -1, Threads: -2,
		LearningRate: math.NaN(), Beta1: 1, Beta2: -1, Epsilon: -1, WeightDecay: math.Inf(1), Clip: math.NaN(),
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, word := range []string{
		"layers", "width", "heads", "context", "batch", "held-out", "threads",
		"learning rate", "beta1", "beta2", "epsilon", "weight decay", "clip",
	} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not named in: %v", word, err)
		}
	}
}

func TestValidateSizesTogether(t *testing.T) {
	for name, c := range map[string]Config{
		"multiple":       {Width: 98},
		"parameters":     {Layers: 64, Width: 4096},
		"working memory": {Batch: 4096, Context: 4096},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: error %v, want one about %q", c, err, name)
		}
	}
	if err := (Config{WeightDecay: -1, Clip: -1, WarmUp: -1}).Validate(); err != nil {
		t.Errorf("switching decay, clip and warm-up off is refused: %v", err)
	}
}

// The buffers that newModel makes stay near what Validate bounds.
func TestBufferElements(t *testing.T) {
	s := shape{layers: 3, width: 8, heads: 2, context: 16, vocab: 32}
	m := newModel(s, 5, 1)
	n := len(m.last) + len(m.logits) + 2*len(m.final.out) + len(m.back.stream) + len(m.back.narrow) +
		len(m.back.qkv) + len(m.back.wide) + len(m.back.scores)
	for _, a := range m.layers {
		n += len(a.in) + 2*len(a.ln1.out) + len(a.qkv) + len(a.weights) + len(a.mixed) + len(a.mid) + 2*len(a.ln2.out) +
			3*len(a.up)
	}
	if said := s.bufferElements(5); uint64(n) != said {
		t.Errorf("%d values allocated, bufferElements says %d", n, said)
	}
}
