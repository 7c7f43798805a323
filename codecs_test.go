package p2pdiloco

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
)

// Runs with lossy codecs end, with equal states, in the modes that the equations' replay is not of, where a peer dies and comes again, and
// with a loop of the caller's own.
func TestLossyCodecsInOtherModes(t *testing.T) {
	for name, change := range map[string]func(s *Spec){
		"streaming":       func(s *Spec) { s.Mode, s.Fragments, s.Codec = ModeStreaming, 2, codec.Int4 },
		"async":           func(s *Spec) { s.Mode, s.Codec = ModeAsync, codec.Sign },
		"delayed, a loop": func(s *Spec) { s.Mode, s.Codec = ModeDelayed, codec.Int8 },
	} {
		t.Run(name, func(t *testing.T) {
			spec := simSpec(8, 3)
			change(&spec)
			inSim(t, 10*time.Millisecond, spec, 3, func(s *swarm) {
				if s.spec.Mode == ModeDelayed {
					s.embedded(rounds(s.t))
				}
				s.start(s.peers...)
				s.reach(2, s.peers...)
				if s.spec.Mode != ModeDelayed {
					s.kill(s.peers[1])
					s.reach(4, s.but(s.peers[1])...)
					s.restart(s.peers[1])
				}
				s.finish(2*time.Minute, s.peers...)
				for _, p := range s.peers {
					if !s.contributedAfter(p, 4) {
						t.Errorf("host %d contributed to %v", p.host, s.contributions(p))
					}
				}
			})
		})
	}
}
