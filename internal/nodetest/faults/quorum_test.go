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
	spec := nodetest.Spec(12, 1)
	spec.Trust = p2pdiloco.TrustCrash
	nodetest.Run(t, 10*time.Millisecond, spec, 3, func(s *nodetest.Swarm) {
		s.Pace(50 * time.Millisecond)
		var first atomic.Pointer[nodetest.Peer]
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
			t.Error("the first founder went back to its own chain, which has less work")
		}
	})
}

// The founder vanishes when the others know the founding and nobody but itself has the state: they
// wait for it.
func TestTheFounderVanishesWithTheOnlyState(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(6, 3), 3, func(s *nodetest.Swarm) {
		var first atomic.Pointer[nodetest.Peer]
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
				t.Errorf("host %d founded the run once more", p.Host)
			}
		}
	})
}

// The founder vanishes once others are members with it, before the first slot.
func TestTheFounderVanishesBeforeTheFirstSlot(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(3, 4), 4, func(s *nodetest.Swarm) {
		s.Start(s.Peers[:3]...)
		s.Until(time.Minute, "three members", func() bool {
			return !slices.ContainsFunc(s.Peers[:3],
				func(p *nodetest.Peer) bool { return !p.Had("run.joined") && !p.Had("run.founded") })
		})
		s.Kill(s.Founder())
		fourth := s.Peers[3]
		s.Start(fourth)
		late := s.Add()
		s.Start(late)
		dead := slices.IndexFunc(s.Peers, func(p *nodetest.Peer) bool { return p.Done == nil })
		s.Finish(2*time.Minute, s.But(s.Peers[dead])...)
	})
}

// Two of four vanish at once, the senior among them: nothing is decided until they are back.
func TestHalfWithoutTheSeniorPausesAndResumes(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(10, 4), 4, func(s *nodetest.Swarm) {
		s.Pace(50 * time.Millisecond)
		for _, p := range s.Peers {
			p.Config = func(c *p2pdiloco.Config) { c.OnQuorumLoss = p2pdiloco.OnLossPause }
		}
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		senior := s.Founder()
		dead := []*nodetest.Peer{senior, s.But(senior)[0]}
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
				t.Errorf("host %d was not told that the run resumed", p.Host)
			}
		}
	})
}

// Two of four vanish at once and the senior stays: half with the senior is a quorum.
func TestHalfWithTheSeniorGoesOn(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(6, 4), 4, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		dead := s.But(s.Founder())[:2]
		s.Isolate(dead...)
		s.Kill(dead...)
		s.Finish(2*time.Minute, s.But(dead...)...)
	})
}

// Everybody dies at once, at some moment of a slot, and all come back from their disks.
func TestAllDieAndComeBack(t *testing.T) {
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 230 * time.Millisecond, 310 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(6, 3), 3, func(s *nodetest.Swarm) {
				s.Start(s.Peers...)
				s.Reach(3, s.Peers...)
				time.Sleep(after)
				s.Isolate(s.Peers...)
				s.Kill(s.Peers...)
				before := s.Peers[0].Applied()
				s.Restart(s.Peers...)
				s.Finish(2*time.Minute, s.Peers...)
				for _, p := range s.Peers {
					if _, again := p.States()[1]; !again || before < 3 {
						t.Errorf("host %d: the run began anew", p.Host)
					}
					if n := len(p.Events("run.founded")); n > 1 {
						t.Errorf("host %d founded the run %d times", p.Host, n)
					}
				}
			})
		})
	}
}
