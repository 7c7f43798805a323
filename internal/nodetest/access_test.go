package nodetest

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

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Removal and rotation in a private run, from the operators' motions to the peers that a member
// lets in. Who is admitted under which secret, and given which, is tested in
// internal/node/admission.

// moveAll gives a motion at some peers.
func moveAll(s *Swarm, give func(*p2pdiloco.Node) error, peers ...*Peer) {
	s.T.Helper()
	for _, p := range peers {
		if err := give(p.Node.Load()); err != nil {
			s.T.Fatal(err)
		}
	}
}

// members waits until the run has so many.
func members(s *Swarm, want int) {
	s.T.Helper()
	s.Until(time.Minute, fmt.Sprint(want, " members"), func() bool {
		return len(s.Peers[0].Node.Load().Status().Members) == want
	})
}

// ends waits until a peer's process ends with an error, this one if it is set, whose text has all
// these parts.
func ends(s *Swarm, p *Peer, want error, parts ...string) {
	s.T.Helper()
	err := s.Outcome(p, time.After(time.Minute))
	if err == nil || want != nil && !errors.Is(err, want) || slices.ContainsFunc(parts, func(text string) bool {
		return !strings.Contains(err.Error(), text)
	}) {
		s.T.Errorf("host %d ends with %v", p.Host, err)
	}
}

// follows says whether all go by the secret of the newest record: the first in their files.
func follows(s *Swarm, peers ...*Peer) bool {
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
// it is let in neither as itself nor under another name, and no protocol answers it. Nobody is let
// in with a ticket from before the removal. A peer that slept meanwhile comes back and learns the
// new secret; a new ticket admits.
func TestARemovedPeerIsOut(t *testing.T) {
	RunPrivate(t, 1000, 3, 100*time.Millisecond, func(s *Swarm, founder *Peer) {
		text := s.Invite(founder, p2pdiloco.InviteOptions{Uses: 5})
		member, sleeper, traitor := s.Guest(text), s.Guest(text), s.Guest(text)
		s.Start(member, sleeper, traitor)
		s.Reach(1, s.Peers...)
		members(s, 4)
		s.Kill(sleeper)
		members(s, 3)
		moveAll(s, func(n *p2pdiloco.Node) error { return n.Remove(s.ID(traitor)) }, founder, member)
		ends(s, traitor, p2pdiloco.ErrRemoved)
		s.Until(time.Minute, "another secret", func() bool { return follows(s, founder, member) })
		learnsNothing(s, founder, traitor)
		again := s.Add()
		again.Boot, again.Config = founder.Host, func(c *p2pdiloco.Config) {
			c.Spec, c.AdmissionSecret = p2pdiloco.Spec{Name: "sim"}, filepath.Join(traitor.Dir, "admission.secret")
		}
		s.Start(again)
		ends(s, again, nil, "never was a member")

		late := s.Guest(text)
		s.Start(late)
		ends(s, late, p2pdiloco.ErrTicket, "has been changed since this ticket was made")
		s.Restart(traitor)
		s.Restart(sleeper)
		at := founder.Applied()
		s.Until(time.Minute, "the sleeper is a member again, with the new secret", func() bool {
			return sleeper.Node.Load() != nil && s.ContributedAfter(sleeper, at) && follows(s, sleeper)
		})
		fresh := s.Guest(s.Invite(member, p2pdiloco.InviteOptions{}))
		s.Start(fresh)
		s.Until(time.Minute, "a new ticket admits", func() bool { return s.ContributedAfter(fresh, at) })
		if l := traitor.Ledger(); l != nil && (l.View().IsMember || s.ContributedAfter(traitor, at)) {
			t.Error("the removed peer takes part again")
		}
		moveAll(s, func(n *p2pdiloco.Node) error { return n.Readmit(s.ID(traitor)) }, founder, member, sleeper)
		at = founder.Applied()
		s.Until(3*time.Minute, "readmitted", func() bool {
			return s.ContributedAfter(traitor, at) && follows(s, traitor)
		})
	})
}

// learnsNothing checks that a peer answers another one at none of the run's protocols.
func learnsNothing(s *Swarm, from, out *Peer) {
	s.T.Helper()
	x, key := StrangerAt(s, out.Host), from.Ledger().View().Key
	for proto := range toStrangers {
		if !strings.HasPrefix(proto, "/p2pdiloco/") || proto == p2p.ProtocolAdmit || strings.Contains(proto, "/kad") {
			continue
		}
		for _, b := range append(greetings, framed(key[:])) {
			if answer := x.Ask(from, protocol.ID(proto), b); len(answer) > 0 {
				s.T.Errorf("%s answers a removed peer with %q", proto, answer)
			}
		}
	}
}

func framed(b []byte) []byte { return append([]byte{0, 0, 0, byte(len(b))}, b...) }

// mute is the transport of a peer that has entered the run, and does not ask to be a member.
type mute struct{ membership.Transport }

func (mute) Send(p2pdiloco.PeerID, []byte) {}
func (mute) Publish([]byte)                {}

// A motion to rotate changes the secret and nobody's membership. Members keep their connections; a
// newcomer that is inside, and no member yet, is put out.
func TestRotatedSecret(t *testing.T) {
	RunPrivate(t, 1000, 2, 100*time.Millisecond, func(s *Swarm, founder *Peer) {
		text := s.Invite(founder, p2pdiloco.InviteOptions{Uses: 2})
		guest, newcomer := s.Guest(text), s.Guest(text)
		newcomer.Hooks = func(h *edge.Hooks) {
			h.Ledger = func(c *membership.DriverConfig) { c.Transport = mute{c.Transport} }
		}
		s.Start(guest, newcomer)
		s.Reach(1, founder, guest)
		s.Until(time.Minute, "inside", func() bool { return newcomer.Node.Load() != nil })
		conns := func() []network.Conn { return s.Net.Hosts[founder.Host].Network().ConnsToPeer(peer.ID(s.ID(guest))) }
		kept := conns()
		for _, by := range []*Peer{founder, guest} {
			if _, err := newcomer.Network.Hello(s.T.Context(), s.ID(by), p2p.Hello{Run: "sim"}); err != nil {
				t.Errorf("before the change: %v", err)
			}
		}
		for range 3 {
			before := founder.Ledger().View().Key
			moveAll(s, (*p2pdiloco.Node).RotateSecret, founder)
			s.Until(time.Minute, "another secret", func() bool {
				return founder.Ledger().View().Key != before && follows(s, founder, guest)
			})
			for _, by := range []*Peer{founder, guest} {
				if _, err := newcomer.Network.Hello(s.T.Context(), s.ID(by), p2p.Hello{Run: "sim"}); err == nil {
					t.Errorf("host %d has not put the newcomer out", by.Host)
				}
			}
		}
		if now := conns(); len(kept) == 0 || !slices.Equal(now, kept) {
			t.Errorf("a member had %d connections to the founder, and has others", len(kept))
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
	RunPrivate(t, 1000, 3, 100*time.Millisecond, func(s *Swarm, founder *Peer) {
		text := s.Invite(founder, p2pdiloco.InviteOptions{Uses: 5})
		member, third, traitor, absent := s.Guest(text), s.Guest(text), s.Guest(text), s.Guest(text)
		s.Start(member, third, traitor, absent)
		s.Reach(1, s.Peers...)
		members(s, 5)
		s.Kill(absent)
		members(s, 4)
		for _, out := range []*Peer{traitor, absent} {
			moveAll(s, func(n *p2pdiloco.Node) error { return n.Remove(s.ID(out)) }, founder, member, third)
		}
		ends(s, traitor, p2pdiloco.ErrRemoved)
		s.Until(time.Minute, "both removed", func() bool { return len(founder.Node.Load().Status().Removed) == 2 })
		told := func(p *Peer, event string) {
			s.Until(time.Minute, event, func() bool {
				return slices.ContainsFunc(p.Events(event), func(e p2pdiloco.Event) bool {
					return tellsOfRemoval(fmt.Sprint(e.Fields["detail"]), s.ID(p))
				})
			})
		}
		s.Restart(traitor, absent)
		told(traitor, "peer.removed")     // from its ledger
		told(absent, "admission.refused") // from what members say
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

// A peer that asks for a secret believes an answer only if it is that secret, and waits for it as
// long as is set.
func TestHostileAnswersToWhoAsksForASecret(t *testing.T) {
	RunPrivate(t, 1000, 3, time.Second, func(s *Swarm, founder *Peer) {
		text := s.Invite(founder, p2pdiloco.InviteOptions{Uses: 2})
		liar, honest := s.Guest(text), s.Guest(text)
		s.Start(liar, honest)
		s.Reach(1, s.Peers...)
		key, err := founder.Inside().Guard.Candidate()
		if err == nil {
			err = founder.Inside().Guard.Hold(s.T.Context(), key, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		guard := honest.Inside().Guard
		for what, c := range map[string]struct {
			answer []byte
			want   string
		}{
			"another secret": {
				framed(proof.AppendKeyAnswer(nil, proof.Secret{6}, nil)), "another one than was asked for",
			},
			"none":      {framed(proof.AppendKeyAnswer(nil, proof.Secret{}, nil)), "not given"},
			"a refusal": {framed(proof.AppendKeyAnswer(nil, proof.Secret{}, errors.New("no\x00"))), `no\x00`},
			"much":      {append([]byte{0, 1, 0, 0}, make([]byte, 1<<16)...), wire.ErrTooLarge.Error()},
			"half":      {framed(make([]byte, 20))[:10], "EOF"},
			"nothing":   {nil, ""},
		} {
			liar.Network.Handle(p2p.ProtocolKey, func(_ p2pdiloco.PeerID, st wire.Stream) {
				_, _ = st.Write(c.answer)
				if len(c.answer) == 0 {
					time.Sleep(time.Minute)
				}
			})
			began := time.Now()
			err := guard.Hold(s.T.Context(), key, []p2pdiloco.PeerID{s.ID(liar)})
			if err == nil || !strings.Contains(err.Error(), c.want) || guard.Holds(key) ||
				time.Since(began) > 20*time.Second {
				t.Errorf("%s: %v after %v", what, err, time.Since(began))
			}
		}
		if err := guard.Hold(s.T.Context(), key, []p2pdiloco.PeerID{s.ID(liar), s.ID(founder)}); err != nil {
			t.Error(err)
		}
	})
}

// A peer that knows of the use of a token announces it again to a member that could not receive the
// first announcement.
func TestUsesOfTokensAreToldAgain(t *testing.T) {
	RunPrivate(t, 1000, 1, 500*time.Millisecond, func(s *Swarm, founder *Peer) {
		guest := s.Guest(s.Invite(founder, p2pdiloco.InviteOptions{}))
		s.Start(guest)
		s.Reach(1, founder, guest)
		used := proof.Told{Used: []proof.Used{{
			ID: [ticket.IDSize]byte{7}, Expires: uint64(time.Now().Unix()) + 1000,
			Peers: []p2pdiloco.PeerID{"somebody"},
		}}}
		guest.Inside().Guard.Learn(used.Append(nil))
		agreed := func() bool {
			a, b := founder.Inside().Guard.Used(), guest.Inside().Guard.Used()
			return len(a) > 12 && slices.Equal(a, b)
		}
		if agreed() {
			t.Fatal("they know the same already")
		}
		s.Until(20*time.Second, "told again", agreed)
	})
}

// After one member's refusal another one, which knows better, may let the newcomer in.
func TestAskingOnAfterARefusal(t *testing.T) {
	RunPrivate(t, 1000, 2, 200*time.Millisecond, func(s *Swarm, founder *Peer) {
		member := s.Guest(s.Invite(founder, p2pdiloco.InviteOptions{}))
		s.Start(member)
		s.Reach(1, founder, member)
		text := s.Invite(founder, p2pdiloco.InviteOptions{})
		guest := s.Guest(text)
		k, err := ticket.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		s.Net.Cut(founder.Host, member.Host) // what the one learns here the other does not know
		s.Net.Cut(guest.Host, member.Host)
		founder.Inside().Guard.Learn(proof.Told{Used: []proof.Used{{
			ID: k.Token.ID, Expires: uint64(k.Expires.Unix()), Peers: []p2pdiloco.PeerID{"somebody"},
		}}}.Append(nil))
		s.Start(guest)
		time.Sleep(4 * time.Second) // the founder has refused; three discovery windows are not over
		if guest.Node.Load() != nil {
			t.Fatal("a ticket that is used up admits a peer")
		}
		s.Net.Heal(guest.Host, member.Host)
		s.Until(time.Minute, "let in by the other one", func() bool { return guest.Node.Load() != nil })
	})
}
