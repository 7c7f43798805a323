package p2pdiloco

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// access_test.go: removal and rotation in a private run, from the operators' orders to whom a member lets in.

// orderAll gives an order at some peers.
func (s *swarm) orderAll(give func(*Node) error, peers ...*simPeer) {
	s.t.Helper()
	for _, p := range peers {
		if err := give(p.node.Load()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// follows says whether all go by the secret of the newest record.
func (s *swarm) follows(peers ...*simPeer) bool {
	for _, p := range peers {
		n := p.node.Load()
		key := n.driver.View().Key
		n.doorman.mu.Lock()
		current := n.doorman.mu.Ring.InForce(n.run, key)
		n.doorman.mu.Unlock()
		if key.IsZero() || !current {
			return false
		}
	}
	return true
}

// Whoever is removed from a private run is out: its process ends; with the secret that it has it is let in neither as itself nor under another
// name, and nor is anybody with a ticket of before. Who slept comes back and learns the new secret; a new ticket admits.
func TestRemovedFromAPrivateRun(t *testing.T) {
	inPrivate(t, 1000, 3, 100*time.Millisecond, func(s *swarm, founder *simPeer) {
		text := s.invite(founder, InviteOptions{Uses: 5})
		member, sleeper, traitor := s.guest(text), s.guest(text), s.guest(text)
		s.start(member, sleeper, traitor)
		s.reach(1, s.peers...)
		s.until(time.Minute, "all members", func() bool { return len(founder.node.Load().Status().Members) == 4 })
		s.kill(sleeper)
		s.until(time.Minute, "without the sleeper", func() bool { return len(founder.node.Load().Status().Members) == 3 })
		s.orderAll(func(n *Node) error { return n.Remove(s.id(traitor)) }, founder, member)
		select {
		case err := <-traitor.done:
			if !errors.Is(err, ErrRemoved) {
				t.Errorf("the removed peer ends with %v", err)
			}
			traitor.done <- err
			s.stop(traitor)
		case <-time.After(time.Minute):
			t.Fatal("the removed peer goes on")
		}
		s.until(time.Minute, "another secret", func() bool { return s.follows(founder, member) })

		late := s.guest(text)
		s.start(late)
		select {
		case err := <-late.done:
			if !errors.Is(err, ErrTicket) || !strings.Contains(err.Error(), "changed") {
				t.Errorf("with a ticket of before: %v", err)
			}
			late.done <- err
			s.stop(late)
		case <-time.After(time.Minute):
			t.Fatal("a ticket of before was not refused")
		}
		s.restart(traitor)
		s.restart(sleeper)
		at := founder.applied()
		s.until(time.Minute, "the sleeper is a member again, with the new secret", func() bool {
			return sleeper.node.Load() != nil && s.contributedAfter(sleeper, at) && s.follows(sleeper)
		})
		fresh := s.guest(s.invite(member, InviteOptions{}))
		s.start(fresh)
		s.until(time.Minute, "a new ticket admits", func() bool { return s.contributedAfter(fresh, at) })
		if n := traitor.node.Load(); n != nil && n.driver != nil && (n.driver.View().IsMember || s.contributedAfter(traitor, at)) {
			t.Error("the removed peer takes part again")
		}
		s.orderAll(func(n *Node) error { return n.Readmit(s.id(traitor)) }, founder, member, sleeper)
		at = founder.applied()
		s.until(3*time.Minute, "readmitted", func() bool { return s.contributedAfter(traitor, at) && s.follows(traitor) })
	})
}

// An order to rotate changes the secret and nobody's membership.
func TestRotatedSecret(t *testing.T) {
	inPrivate(t, 1000, 2, 100*time.Millisecond, func(s *swarm, founder *simPeer) {
		guest := s.guest(s.invite(founder, InviteOptions{}))
		s.start(guest)
		s.reach(1, founder, guest)
		for range 3 {
			before := founder.node.Load().driver.View().Key
			s.orderAll((*Node).RotateSecret, founder)
			s.until(time.Minute, "another secret", func() bool {
				return founder.node.Load().driver.View().Key != before && s.follows(founder, guest)
			})
		}
		s.kill(guest)
		s.restart(guest)
		at := founder.applied()
		s.until(time.Minute, "back without a ticket", func() bool { return s.contributedAfter(guest, at) })
	})
}
