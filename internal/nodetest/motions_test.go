package nodetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// A quorum of operators removes a peer: its process ends and says why, the run goes on without it,
// and it cannot come back, with a new ledger neither, until a quorum takes it back.
func TestRemovedAndReadmitted(t *testing.T) {
	Once(t, 1000, 3, func(s *Swarm) {
		a, b, c := s.Peers[0], s.Peers[1], s.Peers[2]
		s.Pace(200 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		remove := func(n *p2pdiloco.Node) error { return n.Remove(s.ID(c)) }
		if err := b.Node.Load().Readmit(s.ID(c)); !errors.Is(err, p2pdiloco.ErrMotion) {
			t.Errorf("readmitted who is not removed: %v", err)
		}
		if err := b.Node.Load().Remove(s.ID(b)); !errors.Is(err, p2pdiloco.ErrMotion) {
			t.Errorf("removed itself: %v", err)
		}
		if err := b.Node.Load().RotateSecret(); !errors.Is(err, p2pdiloco.ErrMotion) {
			t.Errorf("a secret of an open run: %v", err)
		}
		moveAll(s, remove, a)
		s.Until(10*time.Second, "told to all",
			func() bool { return b.Had("access.ordered") && c.Had("access.ordered") })
		s.Kill(a)
		s.Restart(a) // its motion stands
		s.Reach(a.Applied()+1, a, b)
		if st := b.Node.Load().Status(); len(st.Motions) != 1 || len(st.Removed) > 0 {
			t.Errorf("one of three has moved it, and there are motions %v, removed %v", st.Motions, st.Removed)
		}
		moveAll(s, remove, b)
		ends(s, c, p2pdiloco.ErrRemoved)
		Remove(t, c, "ledger.log")
		s.Restart(c)
		at := a.Applied()
		s.Reach(at+10, a, b)
		if st := a.Node.Load().Status(); len(st.Members) != 2 || len(st.Removed) != 1 || st.Removed[0] != s.ID(c) ||
			s.ContributedAfter(c, at) {
			t.Errorf("members %v, removed %v", st.Members, st.Removed)
		}
		if reason := c.Node.Load().Status().Reason; !strings.Contains(reason, "readmit") {
			t.Errorf("the removed peer gives as the reason: %q", reason)
		}
		readmit := func(n *p2pdiloco.Node) error { return n.Readmit(s.ID(c)) }
		moveAll(s, readmit, a, b)
		s.Until(2*time.Minute, "back", func() bool { return s.ContributedAfter(c, at) })
	})
}
