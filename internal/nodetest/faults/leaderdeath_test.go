package faults

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// dieHere ends a peer's process; its connections are closed, as its kernel does it, and nobody
// listens any more when the others have learned of that.
func dieHere(s *swarm, p *peer) {
	s.Stop(p)
	// longer than the way of a packet, shorter than the way there and back
	time.Sleep(15 * time.Millisecond)
	s.Isolate(p)
}

// cutHere cuts a peer off. Nothing tells the others.
func cutHere(s *swarm, p *peer) { s.Isolate(p) }

// The leader dies in one phase or another, or is cut off. The time to see it is a preset's: Gone, a
// tick of the ledger on either side and the way of an ALIVE, once connections break; where none
// does, Lost or three pulses and the one between. The slot at work and the next, 0.4 s undisturbed,
// are committed within that and a second.
func TestALeadersDeathIsSeenSoon(t *testing.T) {
	for _, c := range []struct {
		preset, phase string
		end           func(*swarm, *peer)
		within        time.Duration
	}{
		{p2pdiloco.PresetLAN, "slot.planned", dieHere, 700*time.Millisecond + time.Second},
		{p2pdiloco.PresetLAN, "record.proposed", dieHere, 700*time.Millisecond + time.Second},
		{p2pdiloco.PresetLAN, "record.drafted", cutHere, 1700*time.Millisecond + time.Second},
		{p2pdiloco.PresetWAN, "record.drafted", dieHere, 1700*time.Millisecond + time.Second},
		{p2pdiloco.PresetWAN, "slot.planned", cutHere, 16*time.Second + 1700*time.Millisecond + time.Second},
	} {
		t.Run(c.preset+" "+c.phase, func(t *testing.T) {
			nodetest.Play(t, scenario{Slots: 4, Peers: 4, Modes: "sync"}, func(s *swarm) {
				for _, p := range s.Peers {
					p.Preset = c.preset
				}
				victim := whenLeader(s, 2, c.phase, func(*peer) {})
				s.Start(s.Peers...)
				s.Until(2*time.Minute, "at the phase", func() bool { return victim.Load() != nil })
				dead, died := victim.Load(), time.Now()
				c.end(s, dead)
				s.Reach(3, s.But(dead)...)
				if took := time.Since(died); took > c.within {
					s.T.Errorf("slot 3 took %v, at most %v is due", took, c.within)
				}
				for _, p := range s.But(dead) {
					if p.Had("run.paused") {
						s.T.Errorf("host %d paused: a quorum was there all the time", p.Host)
					}
				}
				s.Kill(dead)
			})
		})
	}
}
