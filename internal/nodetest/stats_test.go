package nodetest

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// bowlGradient is the pseudo-gradient of a bowl's first round: of steps inner steps from the
// initial parameters.
func bowlGradient(t *testing.T, b *Bowl, steps int) []float32 {
	start := make([]float32, BowlElements)
	if err := b.Init(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	local := &Bowl{Target: b.Target, X: append([]float32(nil), start...)}
	for range steps {
		local.Step()
	}
	for i := range start {
		start[i] -= local.X[i]
	}
	return start
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func cosine(a, b []float32) float64 { return dot(a, b) / math.Sqrt(dot(a, a)*dot(b, b)) }

// The measures of a slot are those of the pseudo-gradients behind it, on every peer. A peer that
// trains nothing knows those that all know.
func TestStatsOfASlot(t *testing.T) {
	spec := Spec(3, 4)
	spec.Aggregator, spec.Clip = "mean", "off"
	Run(t, spec, 4, func(s *Swarm) {
		voter := s.Peers[3]
		voter.Trainer = nil
		voter.Config = func(c *p2pdiloco.Config) { // it may found the run
			c.Spec.Layout = bowlLayout()
			c.Init = func(dst []float32) error { return new(Bowl).Init(t.Context(), dst) }
		}
		var gradients [][]float32
		mean := make([]float32, BowlElements)
		for _, p := range s.Peers[:3] {
			g := bowlGradient(t, p.Trainer.(*Bowl), int(spec.InnerSteps))
			gradients = append(gradients, g)
			for i := range mean {
				mean[i] += g[i] / 3
			}
		}
		pair := (cosine(gradients[0], gradients[1]) + cosine(gradients[0], gradients[2]) +
			cosine(gradients[1], gradients[2])) / 3

		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		s.Until(time.Minute, "measured", func() bool { return voter.Had("slot.stats") })
		for i, p := range s.Peers {
			f := p.Events("slot.stats")[0].Fields
			if f["slot"] != uint64(1) || f["contributors"] != 3 || f["weight"] != 3*spec.InnerSteps ||
				f["staleness"] != 0.0 || f["max_staleness"] != uint64(0) {
				t.Errorf("host %d: %v", p.Host, f)
			}
			want := map[string]float64{"norm": math.Sqrt(dot(mean, mean))}
			if i < 3 {
				want["own_norm"] = math.Sqrt(dot(gradients[i], gradients[i]))
				want["cosine"], want["pair_cosine"] = cosine(mean, gradients[i]), pair
			}
			for _, name := range []string{"norm", "own_norm", "cosine", "pair_cosine"} {
				got, known := f[name].(float64)
				wanted, due := want[name]
				tolerance := 1e-5
				if name == "pair_cosine" { // of a part of the vector
					tolerance = 1e-2
				}
				if known != due || math.Abs(got-wanted) > tolerance*max(1, math.Abs(wanted)) {
					t.Errorf("host %d: %s is %v (%v), want %v (%v)", p.Host, name, got, known, wanted, due)
				}
			}
		}
		statsInStatus(s, s.Peers[0], voter)
		s.Finish(time.Minute, s.Peers...)
	})
}

// statsInStatus checks that the status of a peer that trains has all of it, and that of a peer
// that only votes what there is.
func statsInStatus(s *Swarm, trains, votes *Peer) {
	s.T.Helper()
	got := trains.Node.Load().Status().Stats
	if got.Slot == 0 || got.Contributors != 3 || got.Norm == 0 || got.OwnNorm == nil || got.Cosine == nil ||
		got.PairCosine == nil || got.TrainLoss == nil {
		s.T.Errorf("a peer that trains: %+v", got)
	}
	if got.Applied == 0 || got.Contributions != got.Applied || got.Tokens < got.Applied*s.Spec.InnerSteps ||
		got.Loss != nil {
		s.T.Errorf("a peer that trains: %+v", got)
	}
	if got := votes.Node.Load().Status().Stats; got.Slot == 0 || got.Norm == 0 || got.OwnNorm != nil ||
		got.Contributions != 0 || got.Tokens != 0 {
		s.T.Errorf("a peer that votes: %+v", got)
	}
}

// A trainer need not count its own steps: they are the task's then, and its losses are losses. What
// is measured after the last slot, when there are no more inner steps, has the newest one's.
func TestStatsWithoutSteps(t *testing.T) {
	for _, mode := range []string{p2pdiloco.ModeSync, p2pdiloco.ModeDelayed, p2pdiloco.ModeStreaming} {
		t.Run(mode, func(t *testing.T) {
			spec := Spec(2, 1)
			spec.Mode = mode
			Run(t, spec, 1, func(s *Swarm) {
				p := s.Peers[0]
				p.Trainer = uncounted{p.Trainer}
				s.Start(p)
				s.Finish(time.Minute, p)
				told := p.Events("trainer.stats")
				if len(told) != 3 {
					t.Fatalf("%d rounds were measured, want the start and 2", len(told))
				}
				for _, e := range told[1:] {
					if e.Fields["train_loss"] != float64(1) {
						t.Errorf("round %v has a training loss of %v, want 1", e.Fields["round"],
							e.Fields["train_loss"])
					}
				}
			})
		})
	}
}

// uncounted says nothing of its steps.
type uncounted struct{ p2pdiloco.Trainer }

func (u uncounted) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	stats, err := u.Trainer.Train(ctx, task)
	stats.Steps, stats.Loss = 0, 1
	return stats, err
}
