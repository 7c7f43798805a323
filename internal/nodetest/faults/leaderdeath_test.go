package faults

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// dieHere ends a peer's process; its connections are closed, as its kernel does it, and nobody
// listens any more when the others have learned of that.
func dieHere(s *nodetest.Swarm, p *nodetest.Peer) {
	s.Stop(p)
	// longer than the way of a packet, shorter than the way there and back
	time.Sleep(15 * time.Millisecond)
	s.Net.Isolate(p.Host)
}

// cutHere cuts a peer off. Nothing tells the others.
func cutHere(s *nodetest.Swarm, p *nodetest.Peer) { s.Net.Isolate(p.Host) }

// The leader dies in one phase after another, or is cut off. The time to see it is a preset's:
// Gone, a tick of the ledger on either side and the way of an ALIVE, once connections break; where
// none does, Lost or three pulses and the one between. The slot at work and the next, 0.4 s
// undisturbed, are committed within that and a second.
func TestALeadersDeathIsSeenSoon(t *testing.T) {
	for _, c := range []struct {
		preset, how string
		end         func(*nodetest.Swarm, *nodetest.Peer)
		within      time.Duration
	}{
		{p2pdiloco.PresetLAN, "dies", dieHere, 700*time.Millisecond + time.Second},
		{p2pdiloco.PresetLAN, "is cut off", cutHere, 1700*time.Millisecond + time.Second},
		{p2pdiloco.PresetWAN, "dies", dieHere, 1700*time.Millisecond + time.Second},
		{p2pdiloco.PresetWAN, "is cut off", cutHere, 16*time.Second + 1700*time.Millisecond + time.Second},
	} {
		phases := []string{"slot.planned", "slot.committed", "record.drafted", "record.proposed"}
		if c.preset == p2pdiloco.PresetWAN { // its times are others, and nothing else
			phases = phases[:testlevel.Choose(1, 1, len(phases))]
		}
		for _, phase := range phases {
			t.Run(c.preset+" "+c.how+" "+phase, func(t *testing.T) {
				nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(4, 4), 4, func(s *nodetest.Swarm) {
					for _, p := range s.Peers {
						p.Config = func(cfg *p2pdiloco.Config) { cfg.Preset = c.preset }
						p.WAN = c.preset == p2pdiloco.PresetWAN
					}
					victim := s.WhenLeader(2, phase, func(*nodetest.Peer) {})
					s.Start(s.Peers...)
					s.Until(2*time.Minute, "at the phase", func() bool { return victim.Load() != nil })
					dead := victim.Load()
					living := s.But(dead)
					died := time.Now()
					c.end(s, dead)
					s.Reach(3, living...)
					took := time.Since(died)
					t.Logf("slot 3 after %v", took)
					if took > c.within {
						t.Errorf("slot 3 took %v, at most %v is due", took, c.within)
					}
					for _, p := range living {
						if p.Had("run.paused") {
							t.Errorf("host %d paused: a quorum was there all the time", p.Host)
						}
					}
					s.Kill(dead)
				})
			})
		}
	}
}
