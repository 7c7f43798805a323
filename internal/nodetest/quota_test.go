package nodetest

import (
	"testing"
	"time"
)

// An open run's newcomers have a share each, by the address from which they come; a peer that
// was a member is no newcomer.
func TestWhoIsANewcomer(t *testing.T) {
	Once(t, 6, 2, func(s *Swarm) {
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		x := NewStranger(s)
		q, stranger := s.Peers[0].Inside().Quota, x.ID()
		if q.States != 3 || q.Newcomers != 128 {
			t.Errorf("the defaults are %d and %d", q.States, q.Newcomers)
		}
		if !q.Exempt(s.ID(s.Peers[1])) || q.Exempt(stranger) {
			t.Error("a member counts as a newcomer, or a stranger as a member")
		}
		if a, b := q.Site(stranger), q.Site(s.ID(s.Peers[1])); a == b || a == "" || a == "unknown" || b == "" {
			t.Errorf("the stranger comes from %q, a member from %q", a, b)
		}
		s.Finish(time.Minute, s.Peers...)
		if !q.Exempt(s.ID(s.Peers[1])) {
			t.Error("who was a member is a newcomer")
		}
	})
}

func TestThoseLetInAreNoNewcomers(t *testing.T) {
	RunPrivate(t, 40, 1, 20*time.Millisecond, func(s *Swarm, founder *Peer) {
		if q := founder.Inside().Quota; q.States != 0 {
			t.Errorf("newcomers of a private run get %d states", q.States)
		}
		s.Finish(time.Minute, founder)
	})
}
