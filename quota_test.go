package p2pdiloco

import (
	"testing"
	"time"
)

// An open run's newcomers have a share each, by the address from which they come; who was a member is none.
func TestWhoIsANewcomer(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(6, 2), 2, func(s *swarm) {
		s.start(s.peers...)
		s.reach(1, s.peers...)
		n, x := s.peers[0].node.Load(), newStranger(s)
		q, stranger := n.quota(), networkSigner{x}.ID()
		if q.States != 3 || q.Newcomers != 128 {
			t.Errorf("the defaults are %d and %d", q.States, q.Newcomers)
		}
		if !q.Exempt(s.id(s.peers[1])) || q.Exempt(stranger) {
			t.Error("a member counts as a newcomer, or a stranger as a member")
		}
		if a, b := q.Site(stranger), q.Site(s.id(s.peers[1])); a == b || a == "" || a == "unknown" || b == "" {
			t.Errorf("the stranger comes from %q, a member from %q", a, b)
		}
		s.finish(time.Minute, s.peers...)
		if !q.Exempt(s.id(s.peers[1])) {
			t.Error("who was a member is a newcomer")
		}
	})
}

func TestThoseLetInAreNoNewcomers(t *testing.T) {
	inPrivate(t, 40, 1, 20*time.Millisecond, func(s *swarm, founder *simPeer) {
		if q := founder.node.Load().quota(); q.States != 0 {
			t.Errorf("newcomers of a private run get %d states", q.States)
		}
		s.finish(time.Minute, founder)
	})
}
