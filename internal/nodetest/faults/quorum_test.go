package faults

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// The founder vanishes while it founds, before anybody can hear of it: where the spec names no
// founders, as with trust crash, another one founds the run. When the first comes back there is one
// run still.
func TestTheFounderVanishesBeforeItsFoundingIsKnown(t *testing.T) {
	c := scenario{
		Slots: 14, Peers: 3, Start: 1, Trusts: "crash", Pace: 50 * time.Millisecond,
	}
	nodetest.Play(t, c, func(s *swarm) {
		var first atomic.Pointer[peer]
		for _, p := range s.Peers {
			p.Config = func(c *p2pdiloco.Config) {
				c.Init = func(dst []float32) error {
					if first.CompareAndSwap(nil, p) {
						s.Net.Isolate(p.Host)
					}
					return p.Trainer.Init(s.T.Context(), dst)
				}
			}
		}
		s.Start(s.Peers...)
		s.Until(time.Minute, "founding", func() bool { return first.Load() != nil && first.Load().Applied() >= 1 })
		s.Kill(first.Load())
		s.Reach(3, s.But(first.Load())...)
		s.Restart(first.Load())
		s.Finish(2*time.Minute, s.Peers...)
		if !first.Load().Had("run.switched") {
			s.T.Error("the first founder went back to its own chain, which has less work")
		}
	})
}

// The founder vanishes when the others know the founding and nobody but itself has the state: they
// wait for it.
func TestTheFounderVanishesWithTheOnlyState(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 6, Peers: 3}, func(s *swarm) {
		var first atomic.Pointer[peer]
		for _, p := range s.Peers {
			p.OnEvent = func(e p2pdiloco.Event) {
				if e.Name == "run.founded" && first.CompareAndSwap(nil, p) {
					// the others have its hello, and adopt its spec
					time.AfterFunc(12*time.Millisecond, func() { s.Net.Isolate(p.Host) })
				}
			}
		}
		s.Start(s.Peers...)
		s.Until(time.Minute, "founded", func() bool { return first.Load() != nil })
		time.Sleep(20 * time.Millisecond)
		s.Kill(first.Load())
		time.Sleep(20 * time.Second)
		s.Restart(first.Load())
		s.Finish(2*time.Minute, s.Peers...)
		for _, p := range s.But(first.Load()) {
			if p.Had("run.founded") {
				s.T.Errorf("host %d founded the run once more", p.Host)
			}
		}
	})
}

// The founder vanishes once others are members with it, before the first slot.
func TestTheFounderVanishesBeforeTheFirstSlot(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 4, Peers: 4}, func(s *swarm) {
		s.Start(s.Peers[:3]...)
		s.Until(time.Minute, "three members", func() bool {
			return !slices.ContainsFunc(s.Peers[:3],
				func(p *peer) bool { return !p.Had("run.joined") && !p.Had("run.founded") })
		})
		s.Kill(s.Founder())
		fourth := s.Peers[3]
		s.Start(fourth)
		late := s.Add()
		s.Start(late)
		dead := slices.IndexFunc(s.Peers, func(p *peer) bool { return p.Done == nil })
		s.Finish(2*time.Minute, s.But(s.Peers[dead])...)
	})
}

// Two of four vanish at once, the senior among them: nothing is decided until they are back.
func TestHalfWithoutTheSeniorPausesAndResumes(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 10, Peers: 4, Pace: 50 * time.Millisecond}, func(s *swarm) {
		for _, p := range s.Peers {
			p.Config = func(c *p2pdiloco.Config) { c.OnQuorumLoss = p2pdiloco.OnLossPause }
		}
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		senior := s.Founder()
		dead := []*peer{senior, s.But(senior)[0]}
		alive := s.But(dead...)
		s.Isolate(dead...)
		s.Kill(dead...)
		s.Until(time.Minute, "paused", func() bool { return alive[0].Had("run.paused") && alive[1].Had("run.paused") })
		at := alive[0].Applied()
		time.Sleep(20 * time.Second)
		if now := alive[0].Applied(); now != at {
			s.T.Errorf("half of the members went on from slot %d to %d without the senior", at, now)
		}
		if phase := alive[0].Node.Load().Status().Phase; phase != p2pdiloco.PhasePaused {
			s.T.Errorf("status says %q, paused is true", phase)
		}
		s.Restart(dead...)
		s.Finish(2*time.Minute, s.Peers...)
		for _, p := range alive {
			if !p.Had("run.resumed") {
				s.T.Errorf("host %d was not told that the run resumed", p.Host)
			}
		}
	})
}

// Two of four vanish at once and the senior stays: half with the senior is a quorum.
func TestHalfWithTheSeniorGoesOn(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 6, Peers: 4}, func(s *swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		dead := s.But(s.Founder())[:2]
		s.Isolate(dead...)
		s.Kill(dead...)
		s.Finish(2*time.Minute, s.But(dead...)...)
	})
}

// Everybody dies at once, at some moment of a slot, and all come back from their disks: also if one
// of them has lost its checkpoints, and another's are damaged.
func TestAllDieAndComeBack(t *testing.T) {
	for i, after := range []time.Duration{100 * time.Millisecond, 310 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			nodetest.Play(t, scenario{Slots: 8, Peers: 3}, func(s *swarm) {
				s.Start(s.Peers...)
				s.Reach(3, s.Peers...)
				time.Sleep(after)
				s.Isolate(s.Peers...)
				s.Kill(s.Peers...)
				if i == 1 {
					nodetest.Remove(s.T, s.Peers[0], "state")
					nodetest.Damage(s.T, s.Peers[1], "state")
				}
				s.Restart(s.Peers...)
				s.Finish(2*time.Minute, s.Peers...)
				for _, p := range s.Peers {
					if n := len(p.Events("run.founded")); n > 1 || p.States()[1].IsZero() {
						s.T.Errorf("host %d founded the run %d times, or it began anew", p.Host, n)
					}
				}
			})
		})
	}
}
