package outeropt

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// config is one with what the others of its kind need.
func config(name string, lr, momentum float32) Config {
	return Config{Name: name, LR: lr, Momentum: momentum, Beta2: 0.99, Every: 4}
}

var (
	defaults = config(Nesterov, 0.7, 0.9)
	kinds    = []Config{
		config(SGD, 0.7, 0), config(SGD, 0.7, 0.9), defaults, config(DelayedNesterov, 0.7, 0.9),
		config(Adam, 0.01, 0.9),
	}
)

func TestValidateNamesEveryFault(t *testing.T) {
	if err := defaults.Validate(); err != nil {
		t.Errorf("default: %v", err)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{config("adagrad", 0.7, 0.9), `"adagrad"|sgd, nesterov, delayed_nesterov, adam`},
		{config(SGD, 0, 0), "learning rate is 0"},
		{config(SGD, -1, 0), "learning rate is -1"},
		{config(SGD, inf, 0), "learning rate is +Inf"},
		{config(SGD, nan, 0), "learning rate is NaN"},
		{config(SGD, 1, 1), "momentum is 1"},
		{config(SGD, 1, -0.5), "momentum is -0.5"},
		{config(Nesterov, 1, nan), "momentum is NaN"},
		{Config{Name: Adam, LR: 1, Beta2: 1}, "beta2 is 1"},
		{Config{Name: Adam, LR: 1}, "beta2 is 0"},
		{Config{Name: Adam, LR: 1, Beta2: nan}, "beta2 is NaN"},
		{Config{Name: DelayedNesterov, LR: 1}, "every 0 contributions"},
		{config("", 0, 2), "optimizer|learning rate|momentum"},
	} {
		err := c.cfg.Validate()
		for w := range strings.SplitSeq(c.want, "|") {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%+v: got error %v, want it to say %s", c.cfg, err, w)
			}
		}
		if _, err := New(c.cfg, 1); err == nil {
			t.Errorf("%+v: New took it", c.cfg)
		}
	}
	if _, err := New(defaults, math.MaxUint64); err == nil {
		t.Error("New took 2^64-1 elements")
	}
}

func TestStateFollowsFromTheConfiguration(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want int // vectors
	}{
		{config(SGD, 1, 0), 0},
		{config(Nesterov, 1, 0), 0},
		{config(SGD, 1, 0.9), 1},
		{config(Nesterov, 1, 0.9), 1},
		{config(DelayedNesterov, 1, 0), 2},
		{config(DelayedNesterov, 1, 0.9), 2},
		{config(Adam, 1, 0), 2},
		{config(Adam, 1, 0.9), 2},
	} {
		opt, err := New(c.cfg, 5)
		if err != nil {
			t.Fatal(err)
		}
		state := opt.State()
		if len(state) != c.want {
			t.Errorf("%+v: %d vectors of state, want %d", c.cfg, len(state), c.want)
		}
		for _, v := range state {
			if !slices.Equal(v, make([]float32, 5)) {
				t.Errorf("%+v: state starts as %v, want zeros", c.cfg, v)
			}
		}
	}
}

// Stepping a vector piece by piece is stepping it whole, and state written into State is what the
// next step uses.
func TestFragmentsAndRestoredState(t *testing.T) {
	const n = 1000
	for _, cfg := range kinds {
		whole, _ := New(cfg, n)
		parts, _ := New(cfg, n)
		next := noise()
		p, g := randoms(next, n), randoms(next, n)
		q := slices.Clone(p)
		open := uint64(0)
		for round := range uint64(9) {
			whole.Step(p, g, At{Step: round + 1, Contributions: 3, Open: open})
			for _, r := range [][2]int{{300, 1000}, {0, 0}, {0, 299}, {299, 300}, {1000, 1000}} {
				parts.Step(q[r[0]:r[1]], g[r[0]:r[1]], At{Offset: r[0], Step: round + 1, Contributions: 3, Open: open})
			}
			equalBits(t, "params", q, p)
			restored, _ := New(cfg, n)
			for i, v := range parts.State() {
				equalBits(t, "state", v, whole.State()[i])
				copy(restored.State()[i], v)
			}
			parts, open = restored, cfg.OpenAfter(At{Contributions: 3, Open: open})
			g[round] = -g[round]
		}
	}
}

func TestStepBeyondTheModelOrBeforeTheFirstPanics(t *testing.T) {
	for _, cfg := range kinds {
		opt, _ := New(cfg, 4)
		for from, n := range map[[2]int]int{
			{0, 1}: 5, {3, 1}: 2, {-1, 1}: 1, {5, 1}: 0, {math.MaxInt, 1}: 1, {0, 0}: 4,
		} {
			at := At{Offset: from[0], Step: uint64(from[1]), Contributions: 1}
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%+v: %d elements at %+v: no panic", cfg, n, at)
					}
				}()
				opt.Step(make([]float32, n), make([]float32, n), at)
			}()
		}
	}
}

func BenchmarkStep(b *testing.B) {
	const n = 1 << 20
	next := noise()
	p, g := randoms(next, n), randoms(next, n)
	for _, cfg := range kinds {
		opt, _ := New(cfg, n)
		name := cfg.Name
		if cfg.Name == SGD && cfg.Momentum != 0 {
			name += "+momentum"
		}
		b.Run(name, func(b *testing.B) {
			step := uint64(1)
			b.SetBytes(4 * n * int64(3+2*len(opt.State())))
			for b.Loop() {
				opt.Step(p, g, At{Step: step, Contributions: 1})
				step++
			}
		})
	}
}
