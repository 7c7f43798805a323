package hostile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A member says hostile things of itself: markup, what moves a terminal's cursor, what changes the
// direction of writing, nothing that can be read, and more than there is room for. The others'
// statuses stay plain, and the run goes on with all of them.
func TestHostileClaimsHarmNobody(t *testing.T) {
	named := func(name string) []byte {
		return append(append([]byte{1, 0, 0, byte(len(name))}, name...), 0)
	}
	nodetest.Once(t, 30, 4, func(s *nodetest.Swarm) {
		s.Pace(100 * time.Millisecond)
		liar, honest := s.Peers[3], s.Peers[:3]
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		for i, claims := range [][]byte{
			named("<script>alert(1)</script>"), named("\x1b[2J\x1b]0;owned\a"), named("\u202egpj.exe"),
			[]byte("no claims at all"), make([]byte, wire.MaxClaims),
			{1, 0xff, 0xff, 0xff, 0xff},
			make([]byte, wire.MaxClaims+1), make([]byte, 1<<19),
		} {
			s.Until(time.Minute, "the claims", func() bool { // its program makes honest ones, too
				liar.Ledger().Report(membership.ReportClaims(claims))
				says := s.Member(honest[0], liar).Says
				return i >= 3 || says != nil && strings.HasPrefix(says.Name, "?")
			})
			s.Reach(uint64(4+2*i), honest...)
			for _, p := range honest {
				text, err := json.Marshal(p.Node.Load().Status())
				if err != nil || strings.ContainsAny(string(text), "<>\x1b\u202e") ||
					strings.Contains(string(text), `\u003c`) || strings.Contains(string(text), `\u001b`) {
					t.Errorf("claims %d: %v, %s", i, err, text)
				}
			}
		}
		s.Finish(5*time.Minute, honest...)
	})
}
