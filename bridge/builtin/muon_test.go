package builtin

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// grid is a matrix of the reference: float64, row by row.
type grid [][]float64

func newGrid(rows, cols int, at func(i, j int) float64) grid {
	g := make(grid, rows)
	for i := range g {
		g[i] = make([]float64, cols)
		for j := range g[i] {
			g[i][j] = at(i, j)
		}
	}
	return g
}

func (g grid) times(o grid) grid {
	return newGrid(len(g), len(o[0]), func(i, j int) (sum float64) {
		for k := range o {
			sum += g[i][k] * o[k][j]
		}
		return sum
	})
}

func (g grid) transposed() grid {
	return newGrid(len(g[0]), len(g), func(i, j int) float64 { return g[j][i] })
}

// ns5 is the iteration as its authors write it.
func (g grid) ns5() grid {
	if len(g) > len(g[0]) {
		return g.transposed().ns5().transposed()
	}
	norm := 0.0
	for _, row := range g {
		for _, v := range row {
			norm += v * v
		}
	}
	x := newGrid(len(g), len(g[0]), func(i, j int) float64 { return g[i][j] / (math.Sqrt(norm) + 1e-7) })
	for range 5 {
		a := x.times(x.transposed())
		aa := a.times(a)
		b := newGrid(len(a), len(a), func(i, j int) float64 { return -4.7750*a[i][j] + 2.0315*aa[i][j] })
		bx := b.times(x)
		x = newGrid(len(x), len(x[0]), func(i, j int) float64 { return 3.4445*x[i][j] + bx[i][j] })
	}
	return x
}

// Its matrices step as the equations say, wide, tall and square ones, and nothing else changes.
func TestMuon(t *testing.T) {
	const rate, decay = 0.01, 0.1
	s := shape{layers: 1, width: 12, heads: 2, context: 8, vocab: 16}
	m := newMuon(s, 2)
	if len(m.matrices) != 4 {
		t.Fatalf("%d matrices of a block's four", len(m.matrices))
	}
	n := int(s.layout().Elements())
	rng := rand.New(rand.NewPCG(1, 2))
	values, momentum := make([]float32, n), make([]float32, n)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	before, moments := append([]float32(nil), values...), map[int]grid{}
	want := map[int]grid{}
	for _, of := range m.matrices {
		moments[of.begin] = newGrid(of.rows, of.cols, func(int, int) float64 { return 0 })
		want[of.begin] = newGrid(of.rows, of.cols, func(i, j int) float64 {
			return float64(values[of.begin+i*of.cols+j])
		})
	}
	for range 3 {
		grad := make([]float32, n)
		for i := range grad {
			grad[i] = float32(rng.NormFloat64())
		}
		m.step(values, grad, momentum, rate, decay)
		for _, of := range m.matrices {
			g := newGrid(of.rows, of.cols, func(i, j int) float64 { return float64(grad[of.begin+i*of.cols+j]) })
			v, w := moments[of.begin], want[of.begin]
			v = newGrid(of.rows, of.cols, func(i, j int) float64 { return .95*v[i][j] + g[i][j] })
			u := newGrid(of.rows, of.cols, func(i, j int) float64 { return g[i][j] + .95*v[i][j] }).ns5()
			size := .2 * math.Sqrt(float64(max(of.rows, of.cols)))
			moments[of.begin] = v
			want[of.begin] = newGrid(of.rows, of.cols, func(i, j int) float64 {
				return w[i][j] - rate*(size*u[i][j]+decay*w[i][j])
			})
		}
	}
	for _, of := range m.matrices {
		for i := of.begin; i < of.end; i++ {
			w := want[of.begin][(i-of.begin)/of.cols][(i-of.begin)%of.cols]
			if math.Abs(float64(values[i])-w) > 2e-5 {
				t.Fatalf("element %d of a matrix of %dx%d: %v, want %v", i, of.rows, of.cols, values[i], w)
			}
		}
		copy(before[of.begin:of.end], values[of.begin:of.end])
	}
	for i := range values {
		if values[i] != before[i] {
			t.Fatalf("element %d is no matrix's, and changed", i)
		}
	}
}

// A trainer with Muon learns, with the same bits on any number of cores, and its state is not
// AdamW's.
func TestMuonTrains(t *testing.T) {
	cfg := Config{Width: 16, Heads: 2, Context: 8, Batch: 8}
	file := t.TempDir() + "/state"
	must(t, newTestTrainer(t, cfg).Save(t.Context(), file))
	var losses []float64
	for _, threads := range []int{1, 2} {
		cfg.Optimizer, cfg.Threads = Muon, threads
		tr := newTestTrainer(t, cfg)
		if err := tr.Restore(t.Context(), file); !errors.Is(err, ErrState) {
			t.Errorf("AdamW's moments: %v", err)
		}
		losses = append(losses, train(t, tr, task(1, "a", 60)).Loss)
		loss, err := tr.Evaluate(t.Context())
		must(t, err)
		losses = append(losses, loss)
	}
	if !(losses[1] < 2.5) || losses[0] != losses[2] || losses[1] != losses[3] {
		t.Errorf("mean loss of 60 steps, and the held-out loss after them: %v, then %v", losses[:2], losses[2:])
	}
	if err := (Config{Optimizer: "sgd"}).Validate(); err == nil {
		t.Error("an unknown optimizer passes")
	}
}
