package p2pdiloco

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// slope is a trainer of a noisy quadratic whose directions are of very different steepness: how low its loss is tells how much training
// there was. Its inner steps take what step says, which may change.
type slope struct {
	bowl
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
func (s *slope) steepness(i int) float64 { return math.Exp(-3.4 * float64(i) / bowlElements) }

func (s *slope) Train(ctx context.Context, task Task) (Stats, error) {
	for done := range task.Steps {
		select {
		case <-ctx.Done():
			return Stats{}, ctx.Err()
		case <-time.After(time.Duration(s.step.Load())):
		}
		for i := range s.x {
			s.x[i] -= float32(0.012 * (s.steepness(i)*float64(s.x[i]) + 0.3*(s.noise.Float64()-0.5)))
		}
		task.Report(done + 1)
	}
	s.done.Add(1)
	return Stats{Steps: task.Steps, Tokens: uint64(task.Steps)}, nil
}

func (s *slope) Evaluate(context.Context) (loss float64, err error) {
	for i, x := range s.x {
		loss += s.steepness(i) * float64(x) * float64(x) / float64(len(s.x))
	}
	s.curve = append(s.curve, lossAt{time.Now(), loss})
	return loss, nil
}

// until is how long it took from the first measure to one of at most a loss; ok is false if it never was so low.
func (s *slope) until(loss float64) (time.Duration, bool) {
	for _, c := range s.curve {
		if c.loss <= loss {
			return c.at.Sub(s.curve[0].at), true
		}
	}
	return 0, false
}

// sloped is a swarm of slopes; each peer's inner step takes as many times 10 ms as speeds says.
func sloped(t *testing.T, spec Spec, speeds []int, f func(s *swarm, slopes []*slope)) {
	t.Helper()
	inSim(t, 10*time.Millisecond, spec, len(speeds), func(s *swarm) {
		var slopes []*slope
		for i, p := range s.peers {
			slopes = append(slopes, newSlope(p.host, time.Duration(speeds[i])*10*time.Millisecond))
			p.trainer = slopes[i]
		}
		f(s, slopes)
	})
}

// One of four trainers takes four times as long for a step. Where all do the same number of steps the others wait for it; in mode async they
// do not, and the loss is where it is to be in less than .45 of the time. In virtual time, with real inner steps of a small problem.
func TestAStragglerDoesNotHoldUpTheLoss(t *testing.T) {
	const target = 0.006
	took := make(map[string]time.Duration)
	t.Run("modes", func(t *testing.T) {
		results := make(chan func(), 3)
		for _, mode := range []string{ModeSync, ModeDelayed, ModeAsync} {
			t.Run(mode, func(t *testing.T) {
				spec := Spec{Name: "sim", Mode: mode, Rounds: 16, InnerSteps: 40, StartPeers: 4, Aggregator: "mean"}
				switch mode {
				case ModeSync:
					spec.Momentum = "0.6" // what is best for so few rounds
				case ModeAsync:
					spec.Rounds, spec.Outer = 32, "delayed_nesterov" // of the same momentum, and in less time
				}
				sloped(t, spec, []int{1, 1, 1, 4}, func(s *swarm, slopes []*slope) {
					s.start(s.peers...)
					s.reach(4, s.peers...)
					first := s.stalls()
					s.reach(spec.Rounds-1, s.peers...)
					var shares []float64
					for i, last := range s.stalls() {
						stall, training := last.Stall-first[i].Stall, last.Training-first[i].Training
						shares = append(shares, stall.Seconds()/(stall+training).Seconds())
					}
					s.finish(5*time.Minute, s.peers...)
					reached, ok := slopes[0].until(target)
					last := slopes[0].curve[len(slopes[0].curve)-1]
					t.Logf("%s: loss %g after %.2f s (0: never); %d slots: loss %.3g after %.2f s; stall shares of the peers %.3f",
						mode, target, reached.Seconds(), spec.Rounds, last.loss, last.at.Sub(slopes[0].curve[0].at).Seconds(), shares)
					if !ok && mode != ModeDelayed { // there it takes too long to wait for
						t.Errorf("the loss never was %g", target)
					}
					for i, share := range shares[:3] {
						if waits := mode != ModeAsync; waits != (share > 0.5) || !waits && share > 0.05 {
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
	if share := took[ModeAsync].Seconds() / took[ModeSync].Seconds(); !(share <= 0.45) {
		t.Errorf("async took %.2f of the barrier's time", share)
	} else {
		t.Logf("async took %.2f of the barrier's time", share)
	}
}

// member is what a peer's status says of another.
func (s *swarm) member(by, of *simPeer) (m MemberStatus) {
	if n := by.node.Load(); n != nil {
		all := n.Status().Members
		if i := slices.IndexFunc(all, func(m MemberStatus) bool { return m.Peer == s.id(of) }); i >= 0 {
			return all[i]
		}
	}
	return m
}

// A peer becomes ten times slower in the middle of the run. A slot or two wait for it, a little; then they close without it. What it has done by
// then enters a later slot, or is too stale; and from then on it is given less to do, and is in time again.
func TestAPeerThatSlowsDownIsGivenLess(t *testing.T) {
	spec := Spec{Name: "sim", Mode: ModeAsync, Rounds: 40, InnerSteps: 40, StartPeers: 4, Aggregator: "mean"}
	sloped(t, spec, []int{1, 1, 1, 1}, func(s *swarm, slopes []*slope) {
		fast, slow := s.peers[0], s.peers[3]
		s.start(s.peers...)
		s.reach(5, s.peers...)
		s.until(time.Minute, "all with the same pace", func() bool {
			c := s.member(fast, slow).Contribution
			return c != nil && c.Steps >= 35 && c.Assigned >= 35 && c.StepTime == 10*time.Millisecond
		})
		before := fast.node.Load().Status()
		slopes[3].step.Store(int64(100 * time.Millisecond))
		s.until(time.Minute, "given less", func() bool {
			m := s.member(fast, slow)
			return m.Contribution != nil && m.Contribution.Slot > before.Slot+2 && m.Contribution.Steps <= 5 && m.Assigned <= 4
		})
		now := fast.node.Load().Status()
		if stall, rounds := now.Stall-before.Stall, now.Slot-before.Slot; stall > 2*time.Second || rounds > 12 {
			s.t.Errorf("the others stalled for %v in %d slots until it was given less", stall, rounds)
		}
		s.finish(5*time.Minute, s.peers...)
		if slow.had("peer.left") {
			s.t.Error("it was dropped")
		}
		for _, p := range s.peers[:3] {
			if got := s.contributions(p); len(got) != 40 {
				s.t.Errorf("host %d contributed to %d slots of 40", p.host, len(got))
			}
		}
		if got := s.contributions(slow); len(got) < 25 {
			s.t.Errorf("it contributed to %v", got)
		}
	})
}

// No contribution is lost because a newer one comes: one that missed its slot stands until it is listed, though its peer's next is ready.
func TestALateContributionIsNotReplaced(t *testing.T) {
	spec := Spec{Name: "sim", Mode: ModeAsync, Pace: PaceSteps, Rounds: 20, InnerSteps: 40, StartPeers: 4, Aggregator: "mean"}
	sloped(t, spec, []int{1, 1, 1, 1}, func(s *swarm, slopes []*slope) {
		odd := s.peers[2]
		odd.on = func(e Event) { // its rounds take once as long as the others', and once twice
			if e.Name == "slot.committed" {
				slopes[2].step.Store(int64([]time.Duration{10, 20}[slopes[2].done.Load()%2] * time.Millisecond))
			}
		}
		stale := make(map[uint64]uint64) // staleness by slot
		s.start(s.peers...)
		s.until(time.Minute, "a late contribution", func() bool {
			if c := s.member(s.peers[0], odd).Contribution; c != nil {
				stale[c.Slot] = c.Staleness
			}
			return s.peers[0].applied() >= 18
		})
		s.finish(5*time.Minute, s.peers...)
		done, listed := int(slopes[2].done.Load()), len(s.contributions(odd))
		late := 0
		for _, n := range stale {
			if n > 0 {
				late++
			}
		}
		if done-listed > 3 || late == 0 {
			s.t.Errorf("of %d rounds %d are in the records, %d late", done, listed, late)
		}
	})
}

// The newer contribution waits while the one before stands for a later slot: in mode async, and on the same branch.
func TestWhatStandsIsWaitedFor(t *testing.T) {
	root, other := Root{1}, Root{2}
	standing := membership.View{Synced: true, Moves: 3, AppliedSlot: 5, OwnOffer: &slot.Offer{Root: root}}
	for _, c := range []struct {
		name, mode string
		root       Root
		moves      uint64
		over       bool
	}{
		{"it stands", ModeAsync, root, 3, false},
		{"another stands", ModeAsync, other, 3, true},
		{"on another branch", ModeAsync, root, 2, true},
		{"in mode delayed", ModeDelayed, root, 3, true},
	} {
		n := &Node{spec: Spec{Mode: c.mode}}
		if got := n.over(standing, c.moves, c.root); got != c.over {
			t.Errorf("%s: over %v", c.name, got)
		}
	}
}

// With a deadline in the place of a number of steps, all finish together: each does as many as it can, by its own measure.
func TestDeadlinePace(t *testing.T) {
	for _, mode := range []string{ModeSync, ModeAsync} {
		t.Run(mode, func(t *testing.T) {
			spec := Spec{Name: "sim", Mode: mode, Pace: PaceDeadline, RoundTime: "1", Rounds: 12, InnerSteps: 40, StartPeers: 4, Aggregator: "mean"}
			sloped(t, spec, []int{1, 2, 3, 4}, func(s *swarm, slopes []*slope) {
				s.start(s.peers...)
				s.reach(4, s.peers...)
				first := s.stalls()
				s.reach(10, s.peers...)
				for i, last := range s.stalls() {
					stall, training := last.Stall-first[i].Stall, last.Training-first[i].Training
					if share := stall.Seconds() / (stall + training).Seconds(); share > 0.15 {
						t.Errorf("peer %d stalled for %.1f%% of its time", i, 100*share)
					}
					want := 100 / (i + 1)
					if c := s.member(s.peers[0], s.peers[i]).Contribution; c == nil || int(c.Steps) < want*7/10 || int(c.Steps) > want*11/10 {
						t.Errorf("peer %d contributed %+v, want about %d steps", i, c, want)
					}
				}
				s.finish(5*time.Minute, s.peers...)
			})
		})
	}
}

// A loop of one's own is measured, too: by the time from call to call over the steps of its task, or as it says itself.
func TestLoopsOfOnesOwnAreMeasured(t *testing.T) {
	spec := simSpec(5, 2)
	spec.Pace = PaceDyLU
	inSim(t, 10*time.Millisecond, spec, 2, func(s *swarm) {
		s.embedded(func(ctx context.Context, n *Node, p *simPeer) error {
			params := make([]float32, bowlElements)
			_, err := n.Anchor(ctx, params)
			for err == nil {
				task, _ := n.Task()
				time.Sleep(time.Duration(task.Steps) * 10 * time.Millisecond)
				if p == s.peers[1] {
					n.Measured(7, 7*20*time.Millisecond)
				}
				err = n.Sync(ctx, params, uint64(task.Steps))
			}
			return ended(err)
		})
		s.start(s.peers...)
		s.reach(4, s.peers...)
		first, second := s.member(s.peers[0], s.peers[0]), s.member(s.peers[0], s.peers[1])
		if c := first.Contribution; c == nil || c.StepTime != 10*time.Millisecond || c.Steps != 20 || c.Assigned != 20 || first.Assigned != 20 {
			t.Errorf("by the clock: %+v", c)
		}
		if c := second.Contribution; c == nil || c.StepTime != 20*time.Millisecond || c.Steps != 7 || c.Assigned != 10 || second.Assigned != 10 {
			t.Errorf("by its own measure: %+v", c)
		}
		s.finish(time.Minute, s.peers...)
	})
}

// A loop that says how many steps it has done may offer before all are: the clock's measure is of those.
func TestALoopThatOffersEarly(t *testing.T) {
	spec := simSpec(3, 1)
	spec.Pace = PaceDyLU
	inSim(t, 10*time.Millisecond, spec, 1, func(s *swarm) {
		s.embedded(func(ctx context.Context, n *Node, p *simPeer) error {
			params := make([]float32, bowlElements)
			_, err := n.Anchor(ctx, params)
			for steps := 1; err == nil; steps++ {
				for step := range steps {
					time.Sleep(10 * time.Millisecond)
					n.Progress(step + 1)
				}
				if err = n.Sync(ctx, params, 1); err == nil {
					if c := s.member(p, p).Contribution; c == nil || c.StepTime != 10*time.Millisecond || c.Steps != uint32(steps) {
						t.Errorf("after %d steps: %+v", steps, c)
					}
				}
			}
			return ended(err)
		})
		s.start(s.peers...)
		s.finish(time.Minute, s.peers...)
	})
}

// What a peer goes by: its newest step time in offers, the median of three for deadlines, and of a round cut short what it has seen of it.
func TestTempo(t *testing.T) {
	var m tempo
	if m.newest() != 0 || m.median() != 0 {
		t.Error("a measure of nothing")
	}
	for _, ms := range []int{10, 11, 500} {
		m.note(4, time.Duration(4*ms)*time.Millisecond)
	}
	m.note(0, time.Second)
	if m.newest() != 500_000 || m.median() != 11*time.Millisecond {
		t.Errorf("newest %d µs, median %v", m.newest(), m.median())
	}
	m.progress(3)
	if m.cut(40, 8*time.Second); m.newest() != 2_000_000 {
		t.Errorf("3 steps and a part in 8 s: %d µs", m.newest())
	}
	m.opened(5)
	for slotNumber, want := range map[uint64]time.Duration{5: time.Hour, 6: 2 * time.Hour, 4: time.Hour, 7: time.Hour} { // the last two: not known
		if got := m.left(slotNumber, time.Hour); got > want || got < want-time.Minute {
			t.Errorf("%v left for slot %d while slot 5 is open, want %v", got, slotNumber, want)
		}
	}
	m.begin()
	if m.cut(40, 8*time.Second); m.newest() != 200_000 {
		t.Errorf("at most 40 steps in 8 s: %d µs", m.newest())
	}
	if m.note(1, time.Nanosecond); m.newest() != 1 {
		t.Errorf("%d µs", m.newest())
	}
	if m.note(1, 100*time.Hour); m.newest() != math.MaxUint32 {
		t.Errorf("%d µs", m.newest())
	}
}

func TestPaceSettings(t *testing.T) {
	s := Spec{Name: "x", Mode: ModeAsync}.Settled()
	if s.Pace != PaceDyLU || s.Outer != "sgd" || s.Momentum != "0" || !slices.Equal(s.Discount, []uint64{1000, 500, 333, 250}) || s.Validate() != nil {
		t.Errorf("mode async settles as %+v", s)
	}
	if s := (Spec{Name: "x", Mode: ModeAsync, Outer: "delayed_nesterov"}).Settled(); s.Momentum != "0.6" || s.DNEvery != 2 {
		t.Errorf("delayed Nesterov in mode async settles as %+v", s)
	}
	if s := (Spec{Name: "x", Mode: ModeAsync, Outer: "nesterov", Pace: PaceSteps, Discount: []uint64{1000}}).Settled(); s.Outer != "nesterov" || s.Pace != PaceSteps || len(s.Discount) != 1 {
		t.Errorf("what was given did not stay: %+v", s)
	}
	for _, bad := range []Spec{{Pace: PaceDeadline}, {Pace: PaceDeadline, RoundTime: "0"}, {Pace: PaceDyLU, RoundTime: "3"}, {Pace: "fast"}, {RoundTime: "x"}, {Mode: ModeAsync, Fragments: 2}, {Pace: PaceDyLU, Fragments: 2}} {
		if bad.Name = "x"; bad.Validate() == nil {
			t.Errorf("%+v is let pass", bad)
		}
	}
	if s := (Spec{Name: "x", Pace: PaceDeadline, RoundTime: "1.5"}).Settled(); s.Validate() != nil || s.roundTime() != 1500*time.Millisecond {
		t.Errorf("%v: %v", s.roundTime(), s.Validate())
	}
}
