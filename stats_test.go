package p2pdiloco

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/similarity"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// bowlGradient is the pseudo-gradient of a bowl's first round: of steps inner steps from the initial parameters.
func bowlGradient(t *testing.T, b *bowl, steps int) []float32 {
	start := make([]float32, bowlElements)
	if err := b.Init(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	local := &bowl{target: b.target, x: append([]float32(nil), start...)}
	for range steps {
		local.step()
	}
	for i := range start {
		start[i] -= local.x[i]
	}
	return start
}

// The measures of a slot are those of the pseudo-gradients behind it, on every peer; who trains nothing knows those that all know.
func TestStatsOfASlot(t *testing.T) {
	spec := simSpec(3, 4)
	spec.Aggregator, spec.Clip = "mean", "off"
	inSim(t, 10*time.Millisecond, spec, 4, func(s *swarm) {
		voter := s.peers[3]
		voter.trainer = nil
		voter.config = func(c *Config) { // it may found the run
			c.Spec.Layout, c.Init = bowlLayout(), func(dst []float32) error { return new(bowl).Init(t.Context(), dst) }
		}
		var gradients [][]float32
		mean := make([]float32, bowlElements)
		for _, p := range s.peers[:3] {
			g := bowlGradient(t, p.trainer.(*bowl), int(spec.InnerSteps))
			gradients = append(gradients, g)
			for i := range mean {
				mean[i] += g[i] / 3
			}
		}
		var pairs similarity.Mean
		pairs.Add(gradients)
		pair, _ := pairs.Value()

		s.start(s.peers...)
		s.reach(1, s.peers...)
		s.until(time.Minute, "measured", func() bool { return voter.had("slot.stats") })
		for i, p := range s.peers {
			f := p.events("slot.stats")[0].Fields
			if f["slot"] != uint64(1) || f["contributors"] != 3 || f["weight"] != 3*spec.InnerSteps || f["staleness"] != 0.0 || f["max_staleness"] != uint64(0) {
				t.Errorf("host %d: %v", p.host, f)
			}
			want := map[string]float64{}
			if i < 3 {
				sums := similarity.Of(mean, gradients[i])
				want["norm"], want["own_norm"] = sums.Norms()
				want["cosine"], _ = sums.Cosine()
				want["pair_cosine"] = pair
			} else {
				want["norm"], _ = similarity.Of(mean, mean).Norms()
			}
			for _, name := range []string{"norm", "own_norm", "cosine", "pair_cosine"} {
				got, known := f[name].(float64)
				wanted, due := want[name]
				tolerance := 1e-5
				if name == "pair_cosine" { // of a part of the vector
					tolerance = 1e-2
				}
				if known != due || math.Abs(got-wanted) > tolerance*max(1, math.Abs(wanted)) {
					t.Errorf("host %d: %s is %v (%v), want %v (%v)", p.host, name, got, known, wanted, due)
				}
			}
		}
		s.statsInStatus(s.peers[0], voter)
		s.finish(time.Minute, s.peers...)
	})
}

// statsInStatus checks that the status of one who trains has all of it, and of one who only votes what there is.
func (s *swarm) statsInStatus(trains, votes *simPeer) {
	s.t.Helper()
	got := trains.node.Load().Status().Stats
	if got.Slot == 0 || got.Contributors != 3 || got.Norm == 0 || got.OwnNorm == nil || got.Cosine == nil || got.PairCosine == nil || got.TrainLoss == nil {
		s.t.Errorf("a peer that trains: %+v", got)
	}
	if got.Applied == 0 || got.Contributions != got.Applied || got.Tokens < got.Applied*s.spec.InnerSteps || got.Loss != nil {
		s.t.Errorf("a peer that trains: %+v", got)
	}
	if got := votes.node.Load().Status().Stats; got.Slot == 0 || got.Norm == 0 || got.OwnNorm != nil || got.Contributions != 0 || got.Tokens != 0 {
		s.t.Errorf("a peer that votes: %+v", got)
	}
}

func TestStatsOfARecord(t *testing.T) {
	got := statsOf(slot.Record{Slot: 9, Contributions: []slot.Offer{{Base: 8, Weight: 10}, {Base: 5, Weight: 20}, {Base: 8, Weight: 3}}})
	if got.contributors != 3 || got.weight != 33 || got.staleness != 1 || got.maxStaleness != 3 {
		t.Errorf("%+v", got)
	}
	if got := statsOf(slot.Record{Slot: 9}); got.staleness != 0 {
		t.Errorf("an empty one: %+v", got)
	}
}

// What a trainer calls a loss may be no number; a status must still be JSON.
func TestStatsAreJSON(t *testing.T) {
	var g gauges
	g.trained(Stats{Loss: math.NaN()})
	g.measured(3, math.Inf(1))
	if s := g.stats(); s.Loss != nil || s.TrainLoss != nil || s.LossSlot != 3 {
		t.Errorf("%+v", s)
	}
	g.trained(Stats{Loss: 2})
	g.measured(4, 1)
	if s := g.stats(); *s.Loss != 1 || *s.TrainLoss != 2 || s.LossSlot != 4 {
		t.Errorf("%+v", s)
	}
	if _, err := json.Marshal(Status{Stats: g.stats()}); err != nil {
		t.Error(err)
	}
}

// A trainer need not count its own steps: they are the task's then, and its losses are losses. What is measured after the last slot, when there
// are no more inner steps, has the newest one's.
func TestStatsWithoutSteps(t *testing.T) {
	for _, mode := range []string{ModeSync, ModeDelayed, ModeStreaming} {
		t.Run(mode, func(t *testing.T) {
			spec := simSpec(2, 1)
			spec.Mode = mode
			inSim(t, 10*time.Millisecond, spec, 1, func(s *swarm) {
				p := s.peers[0]
				p.trainer = uncounted{p.trainer}
				s.start(p)
				s.finish(time.Minute, p)
				told := p.events("trainer.stats")
				if len(told) != 3 {
					t.Fatalf("%d rounds were measured, want the start and 2", len(told))
				}
				for _, e := range told[1:] {
					if e.Fields["train_loss"] != float64(1) {
						t.Errorf("round %v has a training loss of %v, want 1", e.Fields["round"], e.Fields["train_loss"])
					}
				}
			})
		})
	}
}

// uncounted says nothing of its steps.
type uncounted struct{ Trainer }

func (u uncounted) Train(ctx context.Context, task Task) (Stats, error) {
	stats, err := u.Trainer.Train(ctx, task)
	stats.Steps, stats.Loss = 0, 1
	return stats, err
}
