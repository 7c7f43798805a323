package p2pdiloco

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A quorum of operators removes a peer: its process ends and says why, the run goes on without it, and it cannot come back, with a new ledger
// neither, until a quorum takes it back.
func TestRemovedAndReadmitted(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(1000, 3), 3, func(s *swarm) {
		a, b, c := s.peers[0], s.peers[1], s.peers[2]
		s.pace(200 * time.Millisecond)
		s.start(s.peers...)
		s.reach(1, s.peers...)
		order := func(p *simPeer, give func(*Node) error) {
			t.Helper()
			if err := give(p.node.Load()); err != nil {
				t.Fatal(err)
			}
		}
		remove := func(n *Node) error { return n.Remove(s.id(c)) }
		if err := b.node.Load().Readmit(s.id(c)); !errors.Is(err, ErrOrder) {
			t.Errorf("readmitted who is not removed: %v", err)
		}
		if err := b.node.Load().Remove(s.id(b)); !errors.Is(err, ErrOrder) {
			t.Errorf("removed itself: %v", err)
		}
		if err := b.node.Load().RotateSecret(); !errors.Is(err, ErrOrder) {
			t.Errorf("a secret of an open run: %v", err)
		}
		order(a, remove)
		s.until(10*time.Second, "told to all", func() bool { return b.had("access.ordered") && c.had("access.ordered") })
		s.kill(a)
		s.restart(a) // its order stands
		s.reach(a.applied()+1, a, b)
		if st := b.node.Load().Status(); len(st.Orders) != 1 || len(st.Removed) > 0 {
			t.Errorf("one of three has ordered it, and there are orders %v, removed %v", st.Orders, st.Removed)
		}
		order(b, remove)
		select {
		case err := <-c.done:
			if !errors.Is(err, ErrRemoved) {
				t.Errorf("the removed peer ends with %v", err)
			}
			c.done <- err
			s.stop(c)
		case <-time.After(time.Minute):
			t.Fatal("the removed peer goes on")
		}
		if err := os.Remove(filepath.Join(c.dir, "ledger.log")); err != nil {
			t.Fatal(err)
		}
		s.restart(c)
		at := a.applied()
		s.reach(at+10, a, b)
		if st := a.node.Load().Status(); len(st.Members) != 2 || len(st.Removed) != 1 || st.Removed[0] != s.id(c) || s.contributedAfter(c, at) {
			t.Errorf("members %v, removed %v", st.Members, st.Removed)
		}
		if reason := c.node.Load().Status().Reason; !strings.Contains(reason, "readmit") {
			t.Errorf("the removed peer gives as the reason: %q", reason)
		}
		readmit := func(n *Node) error { return n.Readmit(s.id(c)) }
		order(a, readmit)
		order(b, readmit)
		s.until(2*time.Minute, "back", func() bool { return s.contributedAfter(c, at) })
	})
}

func TestOrdersFile(t *testing.T) {
	about, err := slot.ParsePeerID("12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF")
	if err != nil {
		t.Fatal(err)
	}
	want := []slot.Order{{Action: slot.Remove, Peer: about, Turn: 2}, {Action: slot.Rotate, Turn: 1}, {Action: slot.Readmit, Peer: about}}
	if got, err := parseOrders(string(formatOrders(want))); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{
		"remove\n", "burn - 1\n", "remove books 1\n", "remove " + about.String() + " x\n", strings.Repeat("rotate - 1\n", slot.MaxDecisions+1),
	} {
		if _, err := parseOrders(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
