package partitions

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// Three and three are cut apart for longer than it takes to fork. The side with the senior goes on,
// the other one forks and goes on, too; when they meet all end on one chain, with equal states.
func TestBothHalvesOfAPartitionGoOnAndMerge(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, crashSpec(26, 6), 6, func(s *swarm) {
		s.Pace(100 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		senior := s.Founder()
		rest := s.But(senior)
		here, there := append([]*peer{senior}, rest[:2]...), rest[2:]
		s.Cut(true, here, there)
		s.Until(time.Minute, "forked", func() bool { return there[0].Had("run.forked") })
		at := there[0].Applied()
		s.Reach(at+1, there...)
		s.Cut(false, here, there)
		s.Finish(5*time.Minute, s.Peers...)
		for _, p := range there {
			if len(p.Events("run.switched")) != 1 {
				t.Errorf("host %d has given its branch up %d times", p.Host, len(p.Events("run.switched")))
			}
		}
		for _, p := range here {
			if p.Had("run.switched") {
				t.Errorf("host %d has given up the branch of more work", p.Host)
			}
		}
	})
}

// Three and two: the minority forks, and comes back.
func TestTheMinorityForksAndComesBack(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, crashSpec(24, 5), 5, func(s *swarm) {
		s.Pace(100 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		senior := s.Founder()
		minority := []*peer{senior, s.But(senior)[0]}
		majority := s.But(minority...)
		s.Cut(true, minority, majority)
		s.Until(time.Minute, "forked", func() bool { return minority[1].Had("run.forked") })
		s.Cut(false, minority, majority)
		s.Finish(5*time.Minute, s.Peers...)
	})
}

// All but two of five die at once, the founder among them, and never come back: the two go on to
// the last slot. They say that this is a branch, since fewer than half of five have made it.
func TestTheLastTwoGoOn(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, crashSpec(6, 5), 5, func(s *swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		dead := append([]*peer{s.Founder()}, s.But(s.Founder())[:2]...)
		alive := s.But(dead...)
		s.Isolate(dead...)
		s.Kill(dead...)
		for _, p := range alive {
			if err := s.Outcome(p, time.After(3*time.Minute)); !errors.Is(err, p2pdiloco.ErrBranchEnded) {
				t.Errorf("host %d: %v", p.Host, err)
			}
			if p.Applied() != s.Spec.LastSlot() {
				t.Errorf("host %d ended at slot %d", p.Host, p.Applied())
			}
		}
		s.Equal()
		for _, p := range alive {
			if !p.Had("run.forked") || !p.Had("run.paused") {
				t.Errorf("host %d went on without a fork", p.Host)
			}
		}
	})
}

// The last survivor of a run that pauses waits for an operator, says so, and goes on when it is
// told to. A peer that comes back then joins it.
func TestTheLastOneIsToldToGoOn(t *testing.T) {
	nodetest.Once(t, 16, 3, func(s *swarm) {
		s.Pace(50 * time.Millisecond)
		for _, p := range s.Peers {
			p.Config = func(c *p2pdiloco.Config) { c.OnQuorumLoss = p2pdiloco.OnLossPause }
		}
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		last := s.But(s.Founder())[0]
		dead := s.But(last)
		if err := last.Node.Load().Recover(); !errors.Is(err, p2pdiloco.ErrQuorum) {
			t.Errorf("recovered while all were there: %v", err)
		}
		s.Isolate(dead...)
		s.Kill(dead...)
		s.Until(time.Minute, "paused", func() bool { return last.Had("run.paused") })
		time.Sleep(time.Minute)
		if st := last.Node.Load().Status(); last.Had("run.forked") || st.Phase != p2pdiloco.PhasePaused ||
			st.Reason == "" {
			t.Fatalf("forked %v, phase %s, reason %q", last.Had("run.forked"), st.Phase, st.Reason)
		}
		if err := last.Node.Load().Recover(); err != nil {
			t.Fatal(err)
		}
		s.Reach(last.Applied()+2, last)
		s.Restart(dead[0])
		s.Finish(3*time.Minute, last, dead[0])
	})
}

// A partition comes and goes, along changing lines, each time about as long as it takes to fork.
func TestAFlappingPartition(t *testing.T) {
	if !testlevel.Nightly() {
		t.Skip("for .ci/nightly: partitions that come once are tried here")
	}
	nodetest.Run(t, 10*time.Millisecond, crashSpec(40, 6), 6, func(s *swarm) {
		s.Pace(150 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		for i, cut := range []time.Duration{24 * time.Second, 12 * time.Second, 26 * time.Second} {
			here := []*peer{s.Peers[i], s.Peers[(i+2)%6], s.Peers[(i+3)%6]}
			s.Cut(true, here, s.But(here...))
			time.Sleep(cut)
			s.Cut(false, here, s.But(here...))
			time.Sleep(2 * time.Second)
		}
		s.Finish(5*time.Minute, s.Peers...)
		if !slices.ContainsFunc(s.Peers, func(p *peer) bool { return p.Had("run.forked") }) {
			t.Error("nobody ever forked")
		}
	})
}

// Of two peers the one that founded the run dies. The other one pauses, and goes on alone after a
// while, whatever the trust; when the first one is back, they end with one model.
func TestTheFounderOfTwoDies(t *testing.T) {
	for _, trust := range []string{p2pdiloco.TrustCrash, p2pdiloco.TrustByzantine} {
		t.Run(trust, func(t *testing.T) {
			spec := nodetest.Spec(20, 2)
			spec.Trust = trust
			nodetest.Run(t, 10*time.Millisecond, spec, 2, func(s *swarm) {
				s.Pace(200 * time.Millisecond)
				s.Start(s.Peers...)
				s.Reach(2, s.Peers...)
				founder := s.Founder()
				survivor := s.But(founder)[0]
				s.Isolate(founder)
				s.Kill(founder)
				began := time.Now()
				s.Until(time.Minute, "forked", func() bool { return survivor.Had("run.forked") })
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("the survivor went on after %v", took)
				}
				if !survivor.Had("run.paused") {
					t.Error("the survivor went on without a word")
				}
				s.Reach(survivor.Applied()+3, survivor)
				s.Restart(founder)
				s.Finish(3*time.Minute, s.Peers...)
			})
		})
	}
}
