package p2pdiloco

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// founder is the peer that the chain began with: the senior of the members while it is one.
func (s *swarm) founder() *simPeer {
	s.t.Helper()
	i := slices.IndexFunc(s.peers, func(p *simPeer) bool { return p.had("run.founded") })
	if i < 0 {
		s.t.Fatalf("nobody has founded the run\n%s", s)
	}
	return s.peers[i]
}

// The founder vanishes while it founds, before anybody can hear of it: another one founds the run. When the first comes back
// there is one run still.
func TestTheFounderVanishesBeforeItsFoundingIsKnown(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 1), 3, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		var first atomic.Pointer[simPeer]
		for _, p := range s.peers {
			p.config = func(c *Config) {
				c.Init = func(dst []float32) error {
					if first.CompareAndSwap(nil, p) {
						s.net.Isolate(p.host)
					}
					return p.trainer.Init(s.t.Context(), dst)
				}
			}
		}
		s.start(s.peers...)
		s.until(time.Minute, "founding", func() bool { return first.Load() != nil && first.Load().applied() >= 1 })
		s.kill(first.Load())
		s.reach(3, s.but(first.Load())...)
		s.restart(first.Load())
		s.finish(2*time.Minute, s.peers...)
		if !first.Load().had("run.switched") {
			t.Error("the first founder went back to its own chain, which has less work")
		}
	})
}

// The founder vanishes when the others know the founding and nobody but itself has the state: they wait for it.
func TestTheFounderVanishesWithTheOnlyState(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(6, 3), 3, func(s *swarm) {
		var first atomic.Pointer[simPeer]
		for _, p := range s.peers {
			p.on = func(e Event) {
				if e.Name == "run.founded" && first.CompareAndSwap(nil, p) {
					time.AfterFunc(5*time.Millisecond, func() { s.net.Isolate(p.host) }) // the record is on its way
				}
			}
		}
		s.start(s.peers...)
		s.until(time.Minute, "founded", func() bool { return first.Load() != nil })
		time.Sleep(10 * time.Millisecond)
		s.kill(first.Load())
		time.Sleep(20 * time.Second)
		s.restart(first.Load())
		s.finish(2*time.Minute, s.peers...)
		for _, p := range s.but(first.Load()) {
			if p.had("run.founded") {
				t.Errorf("host %d founded the run once more", p.host)
			}
		}
	})
}

// The founder vanishes once others are members with it, before the first slot.
func TestTheFounderVanishesBeforeTheFirstSlot(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(3, 4), 4, func(s *swarm) {
		s.start(s.peers[:3]...)
		s.until(time.Minute, "three members", func() bool {
			return !slices.ContainsFunc(s.peers[:3], func(p *simPeer) bool { return !p.had("run.joined") && !p.had("run.founded") })
		})
		s.kill(s.founder())
		fourth := s.peers[3]
		s.start(fourth)
		late := s.add()
		s.start(late)
		dead := slices.IndexFunc(s.peers, func(p *simPeer) bool { return p.done == nil })
		s.finish(2*time.Minute, s.but(s.peers[dead])...)
	})
}

// Two of four vanish at once, the senior among them: nothing is decided until they are back.
func TestHalfWithoutTheSeniorPausesAndResumes(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(10, 4), 4, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		for _, p := range s.peers {
			p.config = func(c *Config) { c.OnQuorumLoss = OnLossPause }
		}
		s.start(s.peers...)
		s.reach(2, s.peers...)
		senior := s.founder()
		dead := []*simPeer{senior, s.but(senior)[0]}
		alive := s.but(dead...)
		s.isolate(dead...)
		s.kill(dead...)
		s.until(time.Minute, "paused", func() bool { return alive[0].had("run.paused") && alive[1].had("run.paused") })
		at := alive[0].applied()
		time.Sleep(20 * time.Second)
		if now := alive[0].applied(); now != at {
			s.t.Errorf("half of the members went on from slot %d to %d without the senior", at, now)
		}
		if phase := alive[0].node.Load().Status().Phase; phase != PhasePaused {
			s.t.Errorf("status says %q, paused is true", phase)
		}
		s.restart(dead...)
		s.finish(2*time.Minute, s.peers...)
		for _, p := range alive {
			if !p.had("run.resumed") {
				t.Errorf("host %d was not told that the run resumed", p.host)
			}
		}
	})
}

// Two of four vanish at once and the senior stays: half with the senior is a quorum.
func TestHalfWithTheSeniorGoesOn(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(6, 4), 4, func(s *swarm) {
		s.start(s.peers...)
		s.reach(2, s.peers...)
		dead := s.but(s.founder())[:2]
		s.isolate(dead...)
		s.kill(dead...)
		s.finish(2*time.Minute, s.but(dead...)...)
	})
}

// Everybody dies at once, at some moment of a slot, and all come back from their disks.
func TestAllDieAndComeBack(t *testing.T) {
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 230 * time.Millisecond, 310 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(6, 3), 3, func(s *swarm) {
				s.start(s.peers...)
				s.reach(3, s.peers...)
				time.Sleep(after)
				s.isolate(s.peers...)
				s.kill(s.peers...)
				before := s.peers[0].applied()
				s.restart(s.peers...)
				s.finish(2*time.Minute, s.peers...)
				for _, p := range s.peers {
					if _, again := p.states()[1]; !again || before < 3 {
						t.Errorf("host %d: the run began anew", p.host)
					}
					if n := len(p.events("run.founded")); n > 1 {
						t.Errorf("host %d founded the run %d times", p.host, n)
					}
				}
			})
		})
	}
}
