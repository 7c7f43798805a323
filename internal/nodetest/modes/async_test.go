package modes

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// slope is a trainer of a noisy quadratic whose directions are of very different steepness: how low
// its loss is tells how much training there was. Its inner steps take what step says, which may
// change.
type slope struct {
	nodetest.Bowl
	step  atomic.Int64  // milliseconds of one inner step
	done  atomic.Uint64 // rounds
	noise *rand.Rand
	curve []lossAt
	peer  *peer
	ahead map[uint64]bool // by slot: its inner steps began before the slot before it was applied
}

type lossAt struct {
	at   time.Time
	loss float64
}

func (s *slope) Init(_ context.Context, dst []float32) error {
	for i := range dst {
		dst[i] = 1
	}
	return nil
}

// steepness of a direction: from 1 down to 1/30.
func (s *slope) steepness(i int) float64 { return math.Exp(-3.4 * float64(i) / float64(s.Size)) }

func (s *slope) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	s.ahead[task.Slot] = s.peer.Applied()+1 < task.Slot
	for done := range task.Steps {
		select {
		case <-ctx.Done():
			return p2pdiloco.Stats{}, ctx.Err()
		case <-time.After(time.Duration(s.step.Load()) * time.Millisecond):
		}
		for i := range s.X {
			s.X[i] -= float32(0.012 * (s.steepness(i)*float64(s.X[i]) + 0.3*(s.noise.Float64()-0.5)))
		}
		task.Report(done + 1)
	}
	s.done.Add(1)
	return p2pdiloco.Stats{Steps: task.Steps, Tokens: uint64(task.Steps)}, nil
}

func (s *slope) Evaluate(context.Context) (loss float64, err error) {
	for i, x := range s.X {
		loss += s.steepness(i) * float64(x) * float64(x) / float64(len(s.X))
	}
	s.curve = append(s.curve, lossAt{time.Now(), loss})
	return loss, nil
}

// until is how long it took from the first measure to one of at most a loss; 0 if it never was so
// low.
func (s *slope) until(loss float64) time.Duration {
	for _, c := range s.curve {
		if c.loss <= loss {
			return c.at.Sub(s.curve[0].at)
		}
	}
	return 0
}

// sloped is a run of four slopes; each peer's inner step takes as many milliseconds as steps says.
func sloped(t *testing.T, mode string, rounds uint64, steps [4]int64, change func(*p2pdiloco.Spec),
	f func(s *swarm, slopes []*slope),
) {
	t.Helper()
	spec := p2pdiloco.Spec{
		Name: "sim", Mode: mode, Rounds: rounds, InnerSteps: 40, StartPeers: 4, Aggregator: "mean",
	}
	change(&spec)
	nodetest.RunNow(t, spec, 4, func(s *swarm) {
		var slopes []*slope
		for i, p := range s.Peers {
			b := &slope{noise: rand.New(rand.NewPCG(1, uint64(p.Host))), peer: p, ahead: make(map[uint64]bool)}
			b.Size = 500
			b.step.Store(steps[i])
			p.Trainer, slopes = b, append(slopes, b)
		}
		s.Start(s.Peers...)
		f(s, slopes)
	})
}

func unchanged(*p2pdiloco.Spec) {}

// One of four trainers takes four times as long for a step. Where all do the same number of steps
// the others wait for it; in mode async they do not, and the loss is where it is to be in less than
// .45 of the time. In virtual time, with real inner steps of a small problem.
func TestAStragglerDoesNotHoldUpTheLoss(t *testing.T) {
	t.Parallel()
	const target = 0.006
	var took []time.Duration
	for _, mode := range []string{p2pdiloco.ModeSync, p2pdiloco.ModeAsync} {
		// best for so few rounds
		rounds, change := uint64(16), func(s *p2pdiloco.Spec) { s.Momentum = "0.6" }
		if mode == p2pdiloco.ModeAsync {
			// of the same momentum, and in less time
			rounds, change = 32, func(s *p2pdiloco.Spec) { s.Outer = "delayed_nesterov" }
		}
		sloped(t, mode, rounds, [4]int64{10, 10, 10, 40}, change, func(s *swarm, slopes []*slope) {
			shares := stalls(s, 4, rounds-1)
			s.Finish(5*time.Minute, s.Peers...)
			took = append(took, slopes[0].until(target))
			t.Logf("%s: loss %g after %v; stall shares %.3f", mode, target, took[len(took)-1], shares)
			for i, share := range shares[:3] {
				if waits := mode == p2pdiloco.ModeSync; waits != (share > 0.5) || !waits && share > 0.05 {
					t.Errorf("fast peer %d stalled for %.1f%% of its time", i, 100*share)
				}
			}
		})
	}
	if share := took[1].Seconds() / took[0].Seconds(); !(share > 0 && share <= 0.45) {
		t.Errorf("async took %.2f of the barrier's time", share)
	}
}

// A peer becomes ten times slower in the middle of the run. A slot or two wait for it, a little;
// then they close without it. What it has done by then enters a later slot, or is too stale; and
// from then on it is given less to do, and is in time again.
func TestAPeerThatSlowsDownIsGivenLess(t *testing.T) {
	t.Parallel()
	sloped(t, p2pdiloco.ModeAsync, 30, [4]int64{10, 10, 10, 10}, unchanged, func(s *swarm, slopes []*slope) {
		fast, slow := s.Peers[0], s.Peers[3]
		s.Reach(5, s.Peers...)
		s.Until(time.Minute, "all with the same pace", func() bool {
			c := s.Member(fast, slow).Contribution
			return c != nil && c.Steps >= 35 && c.Assigned >= 35 && c.StepTime == 10*time.Millisecond
		})
		before := fast.Node.Load().Status()
		slopes[3].step.Store(100)
		s.Until(time.Minute, "given less", func() bool {
			m := s.Member(fast, slow)
			return m.Contribution != nil && m.Contribution.Slot > before.Slot+2 && m.Contribution.Steps <= 5 &&
				m.Assigned <= 4
		})
		now := fast.Node.Load().Status()
		if stall, rounds := now.Stall-before.Stall, now.Slot-before.Slot; stall > 2*time.Second || rounds > 12 {
			s.T.Errorf("the others stalled for %v in %d slots until it was given less", stall, rounds)
		}
		s.Finish(5*time.Minute, s.Peers...)
		for _, p := range s.Peers {
			if got := s.Contributions(p); len(got) != 30 && (p != slow || len(got) < 18) || slow.Had("peer.left") {
				s.T.Errorf("host %d contributed to %d slots of 30: %v", p.Host, len(got), got)
			}
		}
	})
}

// No contribution is lost because a newer one comes: one that missed its slot stands until it is
// listed, though its peer's next is ready.
func TestALateContributionIsNotReplaced(t *testing.T) {
	t.Parallel()
	steps := func(s *p2pdiloco.Spec) { s.Pace = "steps" }
	sloped(t, p2pdiloco.ModeAsync, 16, [4]int64{10, 10, 10, 10}, steps, func(s *swarm, slopes []*slope) {
		odd := s.Peers[2]
		late := make(map[uint64]bool) // slots
		s.Until(time.Minute, "a late contribution", func() bool {
			// its rounds take once as long as the others', and once twice
			slopes[2].step.Store([]int64{10, 20}[slopes[2].done.Load()%2])
			if c := s.Member(s.Peers[0], odd).Contribution; c != nil && c.Staleness > 0 {
				late[c.Slot] = true
			}
			return s.Peers[0].Applied() >= 14
		})
		s.Finish(5*time.Minute, s.Peers...)
		done, listed := int(slopes[2].done.Load()), len(s.Contributions(odd))
		if done-listed > 3 || len(late) == 0 {
			s.T.Errorf("of %d rounds %d are in the records, %d late", done, listed, len(late))
		}
	})
}

// In mode async inner steps begin with the others' part in them where a slot takes little of their
// time, and at once where it takes more; and nobody stands still for more than a twentieth of the
// time in either. The founder is ahead of the others for some slots.
func TestModeAsyncWaitsForWhatIsQuick(t *testing.T) {
	for step, waits := range map[int64]bool{100: true, 10: false} {
		t.Run(time.Duration(step*int64(time.Millisecond)).String(), func(t *testing.T) {
			t.Parallel()
			sloped(t, p2pdiloco.ModeAsync, 12, [4]int64{step, step, step, step}, unchanged,
				func(s *swarm, slopes []*slope) {
					for i, share := range stalls(s, 3, 10) {
						if share > 1./20 {
							t.Errorf("host %d stalled for %.1f%% of its time", s.Peers[i].Host, 100*share)
						}
					}
					s.Finish(5*time.Minute, s.Peers...)
					for i, b := range slopes {
						for at := uint64(9); at <= 12; at++ {
							if begun, ok := b.ahead[at]; ok && begun == waits {
								t.Errorf("host %d: inner steps of slot %d began ahead: %v", s.Peers[i].Host, at, begun)
							}
						}
					}
				})
		})
	}
}

// A loop of one's own is measured, too: by the time from call to call over the steps of its task,
// or as it says itself. One that says how many steps it has done may offer before all are: the
// clock's measure is of those.
func TestLoopsOfOnesOwnAreMeasured(t *testing.T) {
	spec := nodetest.Spec(5, 3)
	spec.Pace = "dylu"
	nodetest.Run(t, spec, 3, func(s *swarm) {
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *peer) error {
			params := make([]float32, nodetest.BowlElements)
			_, err := n.Anchor(ctx, params)
			for err == nil {
				task, _ := n.Task()
				for step := range task.Steps {
					time.Sleep(10 * time.Millisecond)
					if p == s.Peers[2] {
						if n.Progress(step + 1); step == 4 {
							break
						}
					}
				}
				if p == s.Peers[1] {
					n.Measured(7, 7*20*time.Millisecond)
				}
				err = n.Sync(ctx, params, uint64(task.Steps))
			}
			return nodetest.Ended(err)
		})
		s.Start(s.Peers...)
		s.Reach(4, s.Peers...)
		for i, want := range []struct {
			steps, assigned uint32
			step            time.Duration
		}{{20, 20, 10}, {7, 10, 20}, {5, 20, 10}} {
			m := s.Member(s.Peers[0], s.Peers[i])
			if c := m.Contribution; c == nil || c.StepTime != want.step*time.Millisecond || c.Steps != want.steps ||
				c.Assigned != want.assigned || m.Assigned != want.assigned {
				t.Errorf("loop %d: %+v, %d steps are asked for, want %+v", i, c, m.Assigned, want)
			}
		}
		s.Finish(time.Minute, s.Peers...)
	})
}
