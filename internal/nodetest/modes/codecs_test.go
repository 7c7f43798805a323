package modes

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// Runs with lossy codecs end, with equal states, in the modes that the equations' replay is not of,
// where a peer dies and comes again, and with a loop of the caller's own.
func TestLossyCodecsInOtherModes(t *testing.T) {
	for name, change := range map[string]func(s *p2pdiloco.Spec){
		"streaming": func(s *p2pdiloco.Spec) {
			s.Mode, s.Fragments, s.Codec = p2pdiloco.ModeStreaming, 2, codec.Int4
		},
		"async":           func(s *p2pdiloco.Spec) { s.Mode, s.Codec = p2pdiloco.ModeAsync, codec.Sign },
		"delayed, a loop": func(s *p2pdiloco.Spec) { s.Mode, s.Codec = p2pdiloco.ModeDelayed, codec.Int8 },
	} {
		t.Run(name, func(t *testing.T) {
			spec := nodetest.Spec(14, 3)
			change(&spec)
			nodetest.Run(t, 10*time.Millisecond, spec, 3, func(s *nodetest.Swarm) {
				if s.Spec.Mode == p2pdiloco.ModeDelayed {
					s.OwnLoops(nodetest.Rounds(s.T))
				}
				s.Start(s.Peers...)
				s.Reach(2, s.Peers...)
				if s.Spec.Mode != p2pdiloco.ModeDelayed {
					s.Kill(s.Peers[1])
					s.Reach(4, s.But(s.Peers[1])...)
					s.Restart(s.Peers[1])
				}
				s.Finish(2*time.Minute, s.Peers...)
				for _, p := range s.Peers {
					if !s.ContributedAfter(p, 4) {
						t.Errorf("host %d contributed to %v", p.Host, s.Contributions(p))
					}
				}
			})
		})
	}
}
