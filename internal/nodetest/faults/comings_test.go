package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// Nothing happens: all contribute to each slot, and the last contributions are reduced and applied
// before the run ends.
func TestEightPeersTrainOneModel(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 4, Peers: 8}, func(s *swarm) {
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		for _, p := range s.Peers {
			if got := s.Contributions(p); len(got) != int(s.Spec.LastSlot()) {
				s.T.Errorf("host %d contributed to %v", p.Host, got)
			}
		}
	})
}

// A joiner falls in: one state is fetched, the outer optimizer's with it, it contributes, and the
// others wait for nothing.
func TestALateJoinerGetsTheStateAndTakesPart(t *testing.T) {
	c := scenario{Slots: 30, Peers: 3, Start: 2, Pace: 20 * time.Millisecond, Change: delayed}
	nodetest.Play(t, c, func(s *swarm) {
		late := s.Peers[2]
		s.Start(s.But(late)...)
		s.Reach(4, s.Peers[0])
		s.Start(late)
		s.Finish(3*time.Minute, s.Peers...)
		if n := len(late.Events("state.synced")); n != 1 || !late.Had("run.joined") || !s.ContributedAfter(late, 0) {
			s.T.Errorf("the late joiner fetched %d states, joined: %v, contributed to %v", n, late.Had("run.joined"),
				s.Contributions(late))
		}
	})
}

// How many contributions the outer optimizer has taken since it used its momentum is in the
// checkpoint with which a peer carries on: 3 a slot, of 7.
func TestOpenContributionsOutliveARestart(t *testing.T) {
	c := scenario{Slots: 12, Peers: 3, Modes: "sync", Trusts: "crash", Pace: 30 * time.Millisecond, Change: delayed}
	nodetest.Play(t, c, func(s *swarm) {
		p := s.Peers[1]
		p.Config = func(c *p2pdiloco.Config) { c.CheckpointEvery = 1 }
		s.Start(s.Peers...)
		s.Reach(5, s.Peers...)
		s.Stop(p)
		fetched := len(p.Events("state.synced"))
		s.Start(p)
		s.Finish(3*time.Minute, s.Peers...)
		if len(p.Events("state.synced")) > fetched {
			s.T.Error("it fetched a state: nothing was shown of its own")
		}
	})
}

// absence is a way in which a peer is gone for a while.
type absence struct {
	leader     bool // with its plan out
	gone, back func(s *swarm, p *peer)
}

// A peer goes for a while. Killed, it carries on from its checkpoint as the same member; cut off or
// stopped (SIGSTOP), it trains into the void at most. The others go on without it, though it leads
// the slot. It gets what it missed, does the same outer steps as they, and takes part again.
func TestAPeerIsGoneForAWhile(t *testing.T) {
	start := func(s *swarm, p *peer) { s.Start(p) }
	for name, a := range map[string]absence{
		"killed":     {false, (*swarm).Stop, start},
		"isolated":   {false, func(s *swarm, p *peer) { s.Isolate(p) }, rejoin},
		"stopped":    {false, (*swarm).Freeze, (*swarm).Thaw},
		"its leader": {true, (*swarm).Freeze, (*swarm).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			c := scenario{Slots: 20, Peers: 4, Pace: 30 * time.Millisecond, Change: adam}
			nodetest.Play(t, c, func(s *swarm) { a.play(s) })
		})
	}
}

func rejoin(s *swarm, p *peer) { s.Net.Rejoin(p.Host) }

func (a absence) play(s *swarm) {
	p := s.Peers[1]
	p.Config = func(c *p2pdiloco.Config) { c.CheckpointEvery = 1 }
	if a.leader {
		victim := whenLeader(s, 3, "slot.planned", func(p *peer) { a.gone(s, p) })
		s.Start(s.Peers...)
		s.Until(time.Minute, "planned", func() bool { return victim.Load() != nil })
		p = victim.Load()
	} else {
		s.Start(s.Peers...)
		s.Reach(3, s.Peers...)
		a.gone(s, p)
	}
	at := p.Applied()
	s.Until(time.Minute, "left out", func() bool { return s.But(p)[0].Had("peer.left") })
	s.Reach(at+4, s.But(p)...)
	if now := p.Applied(); now > at+1 {
		s.T.Errorf("it went from slot %d to %d on its own", at, now)
	}
	a.back(s, p)
	s.Finish(3*time.Minute, s.Peers...)
	if !s.ContributedAfter(p, at+4) || len(p.Events("run.founded")) > 1 {
		s.T.Errorf("it contributed to slots %v and never again, or founded anew", s.Contributions(p))
	}
}

// The bootstrap node may die: the run goes on, a restarted peer is found and finds the others, and
// a newcomer starts from any peer's.
func TestTheBootstrapNodeDies(t *testing.T) {
	c := scenario{Slots: 14, Peers: 3, Pace: 30 * time.Millisecond, Change: adam}
	nodetest.Play(t, c, func(s *swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		s.Net.Isolate(0)
		_ = s.Boot.Close()
		p := s.Peers[1]
		s.Stop(p)
		s.Reach(4, s.But(p)...)
		late := s.Add()
		late.Boot = s.Peers[0].Host
		s.Net.Cut(0, late.Host)
		s.Start(p, late)
		s.Finish(2*time.Minute, s.Peers...)
		if !s.ContributedAfter(p, 4) || !s.ContributedAfter(late, 0) {
			s.T.Errorf("the restarted peer contributed to slots %v, the newcomer to %v", s.Contributions(p),
				s.Contributions(late))
		}
	})
}

func TestAPeerWithAnotherSpecIsToldWhichFieldDiffers(t *testing.T) {
	nodetest.Run(t, nodetest.Spec(30, 1), 2, func(s *swarm) {
		s.Start(s.Peers[0])
		s.Reach(1, s.Peers[0])
		s.Spec.InnerSteps = 99
		s.Start(s.Peers[1])
		err := s.Outcome(s.Peers[1], time.After(time.Minute))
		var differs *p2pdiloco.SpecError
		if !errors.As(err, &differs) || differs.Field != "inner_steps" || differs.There != "20" {
			t.Errorf("the stranger's error: %v", err)
		}
	})
}
