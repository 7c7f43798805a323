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
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// slope is a trainer of a noisy quadratic whose directions are of very different steepness: how low
// its loss is tells how much training there was. Its inner steps take what step says, which may
// change.
type slope struct {
	nodetest.Bowl
	step  atomic.Int64  // nanoseconds of one inner step
	done  atomic.Uint64 // rounds
	noise *rand.Rand
	curve []lossAt
}

type lossAt struct {
	at   time.Time
	loss float64
}

func newSlope(host int, step time.Duration) *slope {
	s := &slope{noise: rand.New(rand.NewPCG(1, uint64(host)))}
	s.step.Store(int64(step))
	return s
}

func (s *slope) Init(_ context.Context, dst []float32) error {
	for i := range dst {
		dst[i] = 1
	}
	return nil
}

// steepness of a direction: from 1 down to 1/30.
func (s *slope) steepness(i int) float64 { return math.Exp(-3.4 * float64(i) / nodetest.BowlElements) }

func (s *slope) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	for done := range task.Steps {
		select {
		case <-ctx.Done():
			return p2pdiloco.Stats{}, ctx.Err()
		case <-time.After(time.Duration(s.step.Load())):
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

// until is how long it took from the first measure to one of at most a loss; ok is false if it
// never was so low.
func (s *slope) until(loss float64) (time.Duration, bool) {
	for _, c := range s.curve {
		if c.loss <= loss {
			return c.at.Sub(s.curve[0].at), true
		}
	}
	return 0, false
}

// sloped is a swarm of slopes; each peer's inner step takes as many times 10 ms as speeds says.
func sloped(t *testing.T, spec p2pdiloco.Spec, speeds []int, f func(s *nodetest.Swarm, slopes []*slope)) {
	t.Helper()
	nodetest.Run(t, 10*time.Millisecond, spec, len(speeds), func(s *nodetest.Swarm) {
		var slopes []*slope
		for i, p := range s.Peers {
			slopes = append(slopes, newSlope(p.Host, time.Duration(speeds[i])*10*time.Millisecond))
			p.Trainer = slopes[i]
		}
		f(s, slopes)
	})
}

// One of four trainers takes four times as long for a step. Where all do the same number of steps
// the others wait for it; in mode async they do not, and the loss is where it is to be in less than
// .45 of the time. In virtual time, with real inner steps of a small problem.
func TestAStragglerDoesNotHoldUpTheLoss(t *testing.T) {
	const target = 0.006
	took := make(map[string]time.Duration)
	t.Run("modes", func(t *testing.T) {
		results := make(chan func(), 3)
		modes := []string{p2pdiloco.ModeSync, p2pdiloco.ModeAsync, p2pdiloco.ModeDelayed}
		for _, mode := range modes[:testlevel.Choose(2, 2, 3)] {
			t.Run(mode, func(t *testing.T) {
				spec := p2pdiloco.Spec{
					Name:       "sim",
					Mode:       mode,
					Rounds:     16,
					InnerSteps: 40,
					StartPeers: 4,
					Aggregator: "mean",
				}
				switch mode {
				case p2pdiloco.ModeSync:
					spec.Momentum = "0.6" // what is best for so few rounds
				case p2pdiloco.ModeAsync:
					// of the same momentum, and in less time
					spec.Rounds, spec.Outer = 32, "delayed_nesterov"
				}
				sloped(t, spec, []int{1, 1, 1, 4}, func(s *nodetest.Swarm, slopes []*slope) {
					s.Start(s.Peers...)
					s.Reach(4, s.Peers...)
					first := s.Statuses()
					s.Reach(spec.Rounds-1, s.Peers...)
					var shares []float64
					for i, last := range s.Statuses() {
						stall, training := last.Stall-first[i].Stall, last.Training-first[i].Training
						shares = append(shares, stall.Seconds()/(stall+training).Seconds())
					}
					s.Finish(5*time.Minute, s.Peers...)
					reached, ok := slopes[0].until(target)
					last := slopes[0].curve[len(slopes[0].curve)-1]
					t.Logf("%s: loss %g after %.2f s (0: never); %d slots: loss %.3g after %.2f s; stall shares of "+
						"the peers %.3f",
						mode, target, reached.Seconds(), spec.Rounds, last.loss,
						last.at.Sub(slopes[0].curve[0].at).Seconds(), shares)
					if !ok && mode != p2pdiloco.ModeDelayed { // there it takes too long to wait for
						t.Errorf("the loss never was %g", target)
					}
					for i, share := range shares[:3] {
						if waits := mode != p2pdiloco.ModeAsync; waits != (share > 0.5) || !waits && share > 0.05 {
							t.Errorf("fast peer %d stalled for %.1f%% of its time", i, 100*share)
						}
					}
					results <- func() { took[mode] = reached }
				})
			})
		}
		t.Cleanup(func() {
			close(results)
			for r := range results {
				r()
			}
		})
	})
	if share := took[p2pdiloco.ModeAsync].Seconds() / took[p2pdiloco.ModeSync].Seconds(); !(share <= 0.45) {
		t.Errorf("async took %.2f of the barrier's time", share)
	} else {
		t.Logf("async took %.2f of the barrier's time", share)
	}
}

// A peer becomes ten times slower in the middle of the run. A slot or two wait for it, a little;
// then they close without it. What it has done by then enters a later slot, or is too stale; and
// from then on it is given less to do, and is in time again.
func TestAPeerThatSlowsDownIsGivenLess(t *testing.T) {
	spec := p2pdiloco.Spec{
		Name:       "sim",
		Mode:       p2pdiloco.ModeAsync,
		Rounds:     40,
		InnerSteps: 40,
		StartPeers: 4,
		Aggregator: "mean",
	}
	sloped(t, spec, []int{1, 1, 1, 1}, func(s *nodetest.Swarm, slopes []*slope) {
		fast, slow := s.Peers[0], s.Peers[3]
		s.Start(s.Peers...)
		s.Reach(5, s.Peers...)
		s.Until(time.Minute, "all with the same pace", func() bool {
			c := s.Member(fast, slow).Contribution
			return c != nil && c.Steps >= 35 && c.Assigned >= 35 && c.StepTime == 10*time.Millisecond
		})
		before := fast.Node.Load().Status()
		slopes[3].step.Store(int64(100 * time.Millisecond))
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
		if slow.Had("peer.left") {
			s.T.Error("it was dropped")
		}
		for _, p := range s.Peers[:3] {
			if got := s.Contributions(p); len(got) != 40 {
				s.T.Errorf("host %d contributed to %d slots of 40", p.Host, len(got))
			}
		}
		if got := s.Contributions(slow); len(got) < 25 {
			s.T.Errorf("it contributed to %v", got)
		}
	})
}

// No contribution is lost because a newer one comes: one that missed its slot stands until it is
// listed, though its peer's next is ready.
func TestALateContributionIsNotReplaced(t *testing.T) {
	spec := p2pdiloco.Spec{
		Name: "sim", Mode: p2pdiloco.ModeAsync, Pace: p2pdiloco.PaceSteps, Rounds: 20, InnerSteps: 40, StartPeers: 4,
		Aggregator: "mean",
	}
	sloped(t, spec, []int{1, 1, 1, 1}, func(s *nodetest.Swarm, slopes []*slope) {
		odd := s.Peers[2]
		// its rounds take once as long as the others', and once twice
		odd.OnEvent = func(e p2pdiloco.Event) {
			if e.Name == "slot.committed" {
				slopes[2].step.Store(int64([]time.Duration{10, 20}[slopes[2].done.Load()%2] * time.Millisecond))
			}
		}
		stale := make(map[uint64]uint64) // staleness by slot
		s.Start(s.Peers...)
		s.Until(time.Minute, "a late contribution", func() bool {
			if c := s.Member(s.Peers[0], odd).Contribution; c != nil {
				stale[c.Slot] = c.Staleness
			}
			return s.Peers[0].Applied() >= 18
		})
		s.Finish(5*time.Minute, s.Peers...)
		done, listed := int(slopes[2].done.Load()), len(s.Contributions(odd))
		late := 0
		for _, n := range stale {
			if n > 0 {
				late++
			}
		}
		if done-listed > 3 || late == 0 {
			s.T.Errorf("of %d rounds %d are in the records, %d late", done, listed, late)
		}
	})
}

// With a deadline in the place of a number of steps, all finish together: each does as many as it
// can, by its own measure.
func TestDeadlinePace(t *testing.T) {
	for _, mode := range []string{p2pdiloco.ModeSync, p2pdiloco.ModeAsync} {
		t.Run(mode, func(t *testing.T) {
			spec := p2pdiloco.Spec{
				Name: "sim", Mode: mode, Pace: p2pdiloco.PaceDeadline, RoundTime: "1", Rounds: 12, InnerSteps: 40,
				StartPeers: 4, Aggregator: "mean",
			}
			sloped(t, spec, []int{1, 2, 3, 4}, func(s *nodetest.Swarm, slopes []*slope) {
				s.Start(s.Peers...)
				s.Reach(4, s.Peers...)
				first := s.Statuses()
				s.Reach(10, s.Peers...)
				for i, last := range s.Statuses() {
					stall, training := last.Stall-first[i].Stall, last.Training-first[i].Training
					if share := stall.Seconds() / (stall + training).Seconds(); share > 0.15 {
						t.Errorf("peer %d stalled for %.1f%% of its time", i, 100*share)
					}
					want := 100 / (i + 1)
					if c := s.Member(s.Peers[0], s.Peers[i]).Contribution; c == nil || int(c.Steps) < want*7/10 ||
						int(c.Steps) > want*11/10 {
						t.Errorf("peer %d contributed %+v, want about %d steps", i, c, want)
					}
				}
				s.Finish(5*time.Minute, s.Peers...)
			})
		})
	}
}

// A loop of one's own is measured, too: by the time from call to call over the steps of its task,
// or as it says itself.
func TestLoopsOfOnesOwnAreMeasured(t *testing.T) {
	spec := nodetest.Spec(5, 2)
	spec.Pace = p2pdiloco.PaceDyLU
	nodetest.Run(t, 10*time.Millisecond, spec, 2, func(s *nodetest.Swarm) {
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *nodetest.Peer) error {
			params := make([]float32, nodetest.BowlElements)
			_, err := n.Anchor(ctx, params)
			for err == nil {
				task, _ := n.Task()
				time.Sleep(time.Duration(task.Steps) * 10 * time.Millisecond)
				if p == s.Peers[1] {
					n.Measured(7, 7*20*time.Millisecond)
				}
				err = n.Sync(ctx, params, uint64(task.Steps))
			}
			return nodetest.Ended(err)
		})
		s.Start(s.Peers...)
		s.Reach(4, s.Peers...)
		first, second := s.Member(s.Peers[0], s.Peers[0]), s.Member(s.Peers[0], s.Peers[1])
		if c := first.Contribution; c == nil || c.StepTime != 10*time.Millisecond || c.Steps != 20 ||
			c.Assigned != 20 || first.Assigned != 20 {
			t.Errorf("by the clock: %+v", c)
		}
		if c := second.Contribution; c == nil || c.StepTime != 20*time.Millisecond || c.Steps != 7 ||
			c.Assigned != 10 || second.Assigned != 10 {
			t.Errorf("by its own measure: %+v", c)
		}
		s.Finish(time.Minute, s.Peers...)
	})
}

// A loop that says how many steps it has done may offer before all are: the clock's measure is of
// those.
func TestALoopThatOffersEarly(t *testing.T) {
	spec := nodetest.Spec(3, 1)
	spec.Pace = p2pdiloco.PaceDyLU
	nodetest.Run(t, 10*time.Millisecond, spec, 1, func(s *nodetest.Swarm) {
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *nodetest.Peer) error {
			params := make([]float32, nodetest.BowlElements)
			_, err := n.Anchor(ctx, params)
			for steps := 1; err == nil; steps++ {
				for step := range steps {
					time.Sleep(10 * time.Millisecond)
					n.Progress(step + 1)
				}
				if err = n.Sync(ctx, params, 1); err == nil {
					if c := s.Member(p, p).Contribution; c == nil || c.StepTime != 10*time.Millisecond ||
						c.Steps != uint32(steps) {
						t.Errorf("after %d steps: %+v", steps, c)
					}
				}
			}
			return nodetest.Ended(err)
		})
		s.Start(s.Peers...)
		s.Finish(time.Minute, s.Peers...)
	})
}
