package p2pdiloco

import (
	"testing"
	"time"
)

// dieHere ends a peer's process; its connections are closed, as its kernel does it, and nobody listens any more when the others
// have learned of that.
func dieHere(s *swarm, p *simPeer) {
	s.stop(p)
	time.Sleep(15 * time.Millisecond) // longer than the way of a packet, shorter than the way there and back
	s.net.Isolate(p.host)
}

// cutHere cuts a peer off. Nothing tells the others.
func cutHere(s *swarm, p *simPeer) { s.net.Isolate(p.host) }

// The leader dies in one phase after another, or is cut off. The time to see it is a preset's: Gone, a tick of the ledger on either
// side and the way of an ALIVE, once connections break; where none does, Lost or three pulses and the one between. The slot at work
// and the next, 0.4 s undisturbed, are committed within that and a second.
func TestALeadersDeathIsSeenSoon(t *testing.T) {
	for _, c := range []struct {
		preset, how string
		end         func(*swarm, *simPeer)
		within      time.Duration
	}{
		{PresetLAN, "dies", dieHere, 700*time.Millisecond + time.Second},
		{PresetLAN, "is cut off", cutHere, 1700*time.Millisecond + time.Second},
		{PresetWAN, "dies", dieHere, 1700*time.Millisecond + time.Second},
		{PresetWAN, "is cut off", cutHere, 16*time.Second + 1700*time.Millisecond + time.Second},
	} {
		for _, phase := range []string{"slot.committed", "slot.planned", "record.drafted", "record.proposed"} {
			t.Run(c.preset+" "+c.how+" "+phase, func(t *testing.T) {
				inSim(t, 10*time.Millisecond, simSpec(4, 4), 4, func(s *swarm) {
					for _, p := range s.peers {
						p.config = func(cfg *Config) { cfg.Preset = c.preset }
						p.far = c.preset == PresetWAN
					}
					victim := s.whenLeader(2, phase, func(*simPeer) {})
					s.start(s.peers...)
					s.until(2*time.Minute, "at the phase", func() bool { return victim.Load() != nil })
					dead := victim.Load()
					living := s.but(dead)
					died := time.Now()
					c.end(s, dead)
					s.reach(3, living...)
					took := time.Since(died)
					t.Logf("slot 3 after %v", took)
					if took > c.within {
						t.Errorf("slot 3 took %v, at most %v is due", took, c.within)
					}
					for _, p := range living {
						if p.had("run.paused") {
							t.Errorf("host %d paused: a quorum was there all the time", p.host)
						}
					}
					s.kill(dead)
				})
			})
		}
	}
}
