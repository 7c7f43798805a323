package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// Two and two are cut apart for longer than it takes to fork. The side with the senior goes on, the
// other one forks and goes on, too; when they meet all end on one chain, with equal states. What
// was trained on the branch that is given up is given up, too: all of it, also in the stream.
func TestBothHalvesOfAPartitionGoOnAndMerge(t *testing.T) {
	c := scenario{Slots: 26, Peers: 4, Modes: "sync streaming", Trusts: "crash", Pace: 100 * time.Millisecond}
	nodetest.Play(t, c, func(s *swarm) {
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		senior := s.Founder()
		rest := s.But(senior)
		here, there := []*peer{senior, rest[0]}, rest[1:]
		s.Cut(true, here, there)
		s.Until(time.Minute, "forked", func() bool { return there[0].Had("run.forked") })
		at := there[0].Applied()
		s.Reach(at+1, there...)
		s.Cut(false, here, there)
		s.Finish(5*time.Minute, s.Peers...)
		for i, p := range append(here, there...) {
			if n := len(p.Events("run.switched")); (i >= len(here)) != (n == 1) || !s.ContributedAfter(p, at+1) {
				s.T.Errorf("host %d has given its branch up %d times, and contributed to %v", p.Host, n,
					s.Contributions(p))
			}
		}
	})
}

// All but two of five die at once, the founder among them, and never come back: the two go on to
// the last slot. They say that this is a branch.
func TestTheLastTwoGoOn(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 6, Peers: 5, Trusts: "crash"}, func(s *swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		dead := append([]*peer{s.Founder()}, s.But(s.Founder())[:2]...)
		s.Isolate(dead...)
		s.Kill(dead...)
		for _, p := range s.But(dead...) {
			if err := s.Outcome(p, time.After(3*time.Minute)); err != nil ||
				p.Applied() != s.Spec.LastSlot() || !p.Had("run.forked") || !p.Had("run.paused") {
				s.T.Errorf("host %d ended at slot %d, without a fork or not: %v", p.Host, p.Applied(), err)
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
			t.Errorf("forked %v, phase %s, reason %q", last.Had("run.forked"), st.Phase, st.Reason)
		}
		if err := last.Node.Load().Recover(); err != nil {
			t.Error(err)
		}
		s.Reach(last.Applied()+2, last)
		s.Restart(dead[0])
		s.Finish(3*time.Minute, last, dead[0])
	})
}

// Of two peers the one that founded the run dies. The other one pauses, and goes on alone after a
// while, whatever the trust; when the first one is back, they end with one model.
func TestTheFounderOfTwoDies(t *testing.T) {
	c := scenario{Slots: 20, Peers: 2, Modes: "sync", Pace: 200 * time.Millisecond}
	nodetest.Play(t, c, func(s *swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		founder := s.Founder()
		survivor := s.But(founder)[0]
		s.Isolate(founder)
		s.Kill(founder)
		s.Until(30*time.Second, "forked", func() bool { return survivor.Had("run.forked") })
		if !survivor.Had("run.paused") {
			s.T.Error("the survivor went on without a word")
		}
		s.Reach(survivor.Applied()+3, survivor)
		s.Restart(founder)
		s.Finish(3*time.Minute, s.Peers...)
	})
}

// Two and three are cut apart: the three go on, the two wait, and all end alike.
func TestTheMinorityOfAPartitionWaits(t *testing.T) {
	c := scenario{Slots: 16, Peers: 5, Trusts: "crash", Pace: 50 * time.Millisecond}
	nodetest.Play(t, c, func(s *swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		senior := s.Founder()
		minority := []*peer{senior, s.But(senior)[0]}
		majority := s.But(minority...)
		s.Cut(true, minority, majority)
		s.Until(time.Minute, "paused", func() bool {
			return minority[0].Had("run.paused") && minority[1].Had("run.paused")
		})
		at := minority[0].Applied()
		s.Reach(at+4, majority...)
		if now := minority[0].Applied(); now != at {
			s.T.Errorf("two of five went from slot %d to %d on their own", at, now)
		}
		s.Cut(false, minority, majority)
		s.Finish(5*time.Minute, s.Peers...)
		if !s.ContributedAfter(senior, at+4) {
			s.T.Error("who was cut off never contributed again")
		}
	})
}

// Two members that cannot reach each other both reach the others (HOLES H21); or what one sends to
// another is lost, and nothing else: nobody is dropped for it, and slots go on with both of them as
// members.
func TestTwoMembersThatCannotReachEachOther(t *testing.T) {
	for name, cut := range map[string]func(s *swarm, a, b int){
		"at all":     func(s *swarm, a, b int) { s.Net.Cut(a, b) },
		"in one way": func(s *swarm, a, b int) { s.Net.CutOneWay(a, b) },
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Play(t, scenario{Slots: 12, Peers: 3}, func(s *swarm) {
				s.Start(s.Peers...)
				s.Reach(2, s.Peers...)
				cut(s, s.Peers[0].Host, s.Peers[2].Host)
				s.Finish(5*time.Minute, s.Peers...)
			})
		})
	}
}

// A peer hears everybody and is heard by none.
func TestAPeerThatNobodyHears(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 16, Peers: 4, Pace: 50 * time.Millisecond}, func(s *swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		mute := s.Peers[3]
		mute.Troubled.Store(true)
		for host := range s.Net.Hosts {
			if host != mute.Host {
				s.Net.CutOneWay(mute.Host, host)
			}
		}
		s.Reach(6, s.But(mute)...)
		s.Net.Rejoin(mute.Host)
		s.Finish(5*time.Minute, s.Peers...)
	})
}
