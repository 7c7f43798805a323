package private

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// Removal and rotation in a private run, from the operators' motions to the peers that a member
// lets in.

// moveAll gives a motion at some peers.
func moveAll(s *nodetest.Swarm, give func(*p2pdiloco.Node) error, peers ...*nodetest.Peer) {
	s.T.Helper()
	for _, p := range peers {
		if err := give(p.Node.Load()); err != nil {
			s.T.Fatal(err)
		}
	}
}

// follows says whether all go by the secret of the newest record: the first in their files.
func follows(s *nodetest.Swarm, peers ...*nodetest.Peer) bool {
	for _, p := range peers {
		key, run := p.Ledger().View().Key, p.Node.Load().RunID()
		text, err := os.ReadFile(filepath.Join(p.Dir, "admission.secret"))
		if err != nil {
			s.T.Fatal(err)
		}
		secrets, err := proof.ParseSecrets(string(text))
		if err != nil {
			s.T.Fatal(err)
		}
		if key.IsZero() || secrets[0].Commitment(run) != key {
			return false
		}
	}
	return true
}

// A peer that is removed from a private run is out: its process ends. With the secret that it has,
// it is let in neither as itself nor under another name. Nobody is let in with a ticket from before
// the removal. A peer that slept meanwhile comes back and learns the new secret; a new ticket
// admits.
func TestRemovedFromAPrivateRun(t *testing.T) {
	nodetest.RunPrivate(t, 1000, 3, 100*time.Millisecond, func(s *nodetest.Swarm, founder *nodetest.Peer) {
		text := s.Invite(founder, p2pdiloco.InviteOptions{Uses: 5})
		member, sleeper, traitor := s.Guest(text), s.Guest(text), s.Guest(text)
		s.Start(member, sleeper, traitor)
		s.Reach(1, s.Peers...)
		s.Until(time.Minute, "all members", func() bool { return len(founder.Node.Load().Status().Members) == 4 })
		s.Kill(sleeper)
		s.Until(time.Minute, "without the sleeper",
			func() bool { return len(founder.Node.Load().Status().Members) == 3 })
		moveAll(s, func(n *p2pdiloco.Node) error { return n.Remove(s.ID(traitor)) }, founder, member)
		select {
		case err := <-traitor.Done:
			if !errors.Is(err, p2pdiloco.ErrRemoved) {
				t.Errorf("the removed peer ends with %v", err)
			}
			traitor.Done <- err
			s.Stop(traitor)
		case <-time.After(time.Minute):
			t.Fatal("the removed peer goes on")
		}
		s.Until(time.Minute, "another secret", func() bool { return follows(s, founder, member) })

		late := s.Guest(text)
		s.Start(late)
		select {
		case err := <-late.Done:
			if !errors.Is(err, p2pdiloco.ErrTicket) || !strings.Contains(err.Error(), "changed") {
				t.Errorf("with a ticket of before: %v", err)
			}
			late.Done <- err
			s.Stop(late)
		case <-time.After(time.Minute):
			t.Fatal("a ticket of before was not refused")
		}
		s.Restart(traitor)
		s.Restart(sleeper)
		at := founder.Applied()
		s.Until(time.Minute, "the sleeper is a member again, with the new secret", func() bool {
			return sleeper.Node.Load() != nil && s.ContributedAfter(sleeper, at) && follows(s, sleeper)
		})
		fresh := s.Guest(s.Invite(member, p2pdiloco.InviteOptions{}))
		s.Start(fresh)
		s.Until(time.Minute, "a new ticket admits", func() bool { return s.ContributedAfter(fresh, at) })
		if l := traitor.Ledger(); l != nil &&
			(l.View().IsMember || s.ContributedAfter(traitor, at)) {
			t.Error("the removed peer takes part again")
		}
		moveAll(s, func(n *p2pdiloco.Node) error { return n.Readmit(s.ID(traitor)) }, founder, member, sleeper)
		at = founder.Applied()
		s.Until(3*time.Minute, "readmitted", func() bool {
			return s.ContributedAfter(traitor, at) &&
				follows(s, traitor)
		})
	})
}

// A motion to rotate changes the secret and nobody's membership.
func TestRotatedSecret(t *testing.T) {
	nodetest.RunPrivate(t, 1000, 2, 100*time.Millisecond, func(s *nodetest.Swarm, founder *nodetest.Peer) {
		guest := s.Guest(s.Invite(founder, p2pdiloco.InviteOptions{}))
		s.Start(guest)
		s.Reach(1, founder, guest)
		for range 3 {
			before := founder.Ledger().View().Key
			moveAll(s, (*p2pdiloco.Node).RotateSecret, founder)
			s.Until(time.Minute, "another secret", func() bool {
				return founder.Ledger().View().Key != before && follows(s, founder, guest)
			})
		}
		s.Kill(guest)
		s.Restart(guest)
		at := founder.Applied()
		s.Until(time.Minute, "back without a ticket", func() bool { return s.ContributedAfter(guest, at) })
	})
}

// A removed peer that is started again says that it is removed, by which record, and what to do:
// one that heard of it, from its own ledger; one that was away, from the members.
func TestARemovedPeerIsToldAgain(t *testing.T) {
	nodetest.RunPrivate(t, 1000, 3, 100*time.Millisecond, func(s *nodetest.Swarm, founder *nodetest.Peer) {
		text := s.Invite(founder, p2pdiloco.InviteOptions{Uses: 5})
		member, third, traitor, absent := s.Guest(text), s.Guest(text), s.Guest(text), s.Guest(text)
		s.Start(member, third, traitor, absent)
		s.Reach(1, s.Peers...)
		s.Until(time.Minute, "all members", func() bool { return len(founder.Node.Load().Status().Members) == 5 })
		s.Kill(absent)
		s.Until(time.Minute, "without the absent",
			func() bool { return len(founder.Node.Load().Status().Members) == 4 })
		for _, out := range []*nodetest.Peer{traitor, absent} {
			moveAll(s, func(n *p2pdiloco.Node) error { return n.Remove(s.ID(out)) }, founder, member, third)
		}
		select {
		case err := <-traitor.Done:
			if !errors.Is(err, p2pdiloco.ErrRemoved) || !tellsOfRemoval(err.Error(), s.ID(traitor)) {
				t.Errorf("the removed peer ends with %v", err)
			}
			traitor.Done <- err
			s.Stop(traitor)
		case <-time.After(time.Minute):
			t.Fatal("the removed peer goes on")
		}
		s.Until(time.Minute, "both removed",
			func() bool { return len(founder.Node.Load().Status().Removed) == 2 })
		told := func(p *nodetest.Peer, event string) bool {
			return slices.ContainsFunc(p.Events(event), func(e p2pdiloco.Event) bool {
				return tellsOfRemoval(fmt.Sprint(e.Fields["detail"]), s.ID(p))
			})
		}
		s.Restart(traitor, absent)
		s.Until(time.Minute, "the traitor tells from its ledger", func() bool { return told(traitor, "peer.removed") })
		s.Until(
			time.Minute,
			"the absent tells what members say",
			func() bool { return told(absent, "admission.refused") },
		)
		if reason := traitor.Node.Load().Status().Reason; !tellsOfRemoval(reason, s.ID(traitor)) {
			t.Errorf("the traitor's status gives as the reason: %q", reason)
		}
	})
}

// tellsOfRemoval says whether a text names the record that removed a peer, and what to do.
func tellsOfRemoval(text string, p p2pdiloco.PeerID) bool {
	record := regexp.MustCompile(`by record [0-9a-f]{8} at height \d+: `)
	return record.MatchString(text) && strings.Contains(text, "p2pdiloco readmit "+p.String()) &&
		strings.Contains(text, "a new ticket")
}
