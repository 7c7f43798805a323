package outeropt

import (
	"math"
	"strings"
	"testing"
)

// halves is an optimizer that a program might bring.
func halves() Custom {
	return Custom{
		Name: "halves", Version: 2, Vectors: 2,
		Step: func(params, grad []float32, state [][]float32, cfg Config, at At) {
			for j, g := range grad {
				state[0][j] += g
				state[1][j] = float32(at.Step)
				params[j] -= float32(cfg.LR * (state[0][j] / 2))
			}
		},
	}
}

func TestACustomOptimizerIsRegisteredOnce(t *testing.T) {
	c := halves()
	var err error
	if c.Golden, err = c.Fingerprint(); err != nil {
		t.Fatal(err)
	}
	if err := Register(c); err != nil {
		t.Fatal(err)
	}
	if err := Register(c); err == nil {
		t.Error("it was registered twice")
	}
	cfg := Config{Name: c.Name, LR: 0.5}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	opt, err := New(cfg, 8)
	if err != nil {
		t.Fatal(err)
	}
	params := []float32{1, 2, 3}
	for step := range uint64(2) {
		opt.Step(params, []float32{1, 1, 2}, At{Offset: 5, Step: step + 1})
	}
	equalBits(t, "params", params, []float32{0.25, 1.25, 1.5})
	equalBits(t, "sums", opt.State()[0], []float32{0, 0, 0, 0, 0, 2, 2, 4})
	equalBits(t, "steps", opt.State()[1], []float32{0, 0, 0, 0, 0, 2, 2, 2})
}

func TestRegisterSaysWhatIsWrong(t *testing.T) {
	calls := 0
	for want, change := range map[string]func(c *Custom){
		"small letters":         func(c *Custom) { c.Name = "Halves" },
		"not a built-in":        func(c *Custom) { c.Name = Adam },
		"versions count from 1": func(c *Custom) { c.Version = 0 },
		"0 to 16 are allowed":   func(c *Custom) { c.Vectors = 17 },
		"it has no Step":        func(c *Custom) { c.Step = nil },
		"whose fingerprint is":  func(c *Custom) { c.Golden = "0" },
		"not elementwise": func(c *Custom) {
			c.Step = func(params, _ []float32, _ [][]float32, _ Config, _ At) { params[0] += float32(len(params)) }
		},
		"not a function of its arguments alone": func(c *Custom) {
			c.Step = func(params, _ []float32, _ [][]float32, _ Config, _ At) { calls++; params[0] += float32(calls) }
		},
		"has changed grad": func(c *Custom) {
			c.Step = func(_, grad []float32, _ [][]float32, _ Config, _ At) {
				for j := range grad {
					grad[j] = min(grad[j], 1)
				}
			}
		},
		"is NaN after some steps": func(c *Custom) {
			c.Step = func(params, grad []float32, _ [][]float32, _ Config, _ At) {
				for j, g := range grad {
					params[j] -= g / float32(math.Abs(float64(g)))
				}
			}
		},
		"Inf after some steps": func(c *Custom) {
			c.Step = func(params, _ []float32, _ [][]float32, _ Config, _ At) {
				for j := range params {
					params[j] = params[j] * 1e38 * 1e38
				}
			}
		},
	} {
		c := halves()
		c.Name = "other"
		change(&c)
		if err := Register(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error that says %q, got %v", want, err)
		}
	}
}
