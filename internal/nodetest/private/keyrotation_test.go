package private

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

type peers = []p2pdiloco.PeerID

// records stand for what the run's records say of access.
type records struct {
	s       *nodetest.Swarm
	key     p2pdiloco.Root
	ever    []p2pdiloco.PeerID
	removed []p2pdiloco.PeerID
}

func (r *records) access(p p2pdiloco.PeerID) proof.Access {
	return proof.Access{Ever: slices.Contains(r.ever, p), Removed: slices.Contains(r.removed, p), Why: "removed"}
}

// known lets peers know the records. All their members are listed.
func (r *records) known(peers ...*nodetest.Peer) {
	r.s.T.Helper()
	for _, p := range peers {
		if err := p.Inside().Guard.Follow(r.key, r.access); err != nil {
			r.s.T.Fatalf("host %d: %v", p.Host, err)
		}
	}
}

// rotate puts a secret of one peer's in force, without some members, once the others hold it.
func (r *records) rotate(by *nodetest.Peer, holders []*nodetest.Peer, without ...p2pdiloco.PeerID) {
	r.s.T.Helper()
	// By then each node was told what its own records say, which know no other secret.
	time.Sleep(3 * time.Second)
	key, err := by.Inside().Guard.Candidate()
	if err != nil {
		r.s.T.Fatal(err)
	}
	for _, p := range append([]*nodetest.Peer{by}, holders...) {
		if err := p.Inside().Guard.Hold(r.s.T.Context(), key, peers{r.s.ID(p), r.s.ID(by)},
			without...); err != nil {
			r.s.T.Fatalf("host %d: %v", p.Host, err)
		}
	}
	r.key, r.removed = key, append(r.removed, without...)
	r.known(append(holders, by)...)
}

// listed are records that list some peers, known to all of them.
func listed(s *nodetest.Swarm, peers ...*nodetest.Peer) *records {
	r := &records{s: s}
	for _, p := range peers {
		r.ever = append(r.ever, s.ID(p))
	}
	r.known(peers...)
	return r
}

// inside are the peers that have let each other in: a stream of hello goes both ways.
func inside(s *nodetest.Swarm, a, b *nodetest.Peer) bool {
	for _, way := range [][2]*nodetest.Peer{{a, b}, {b, a}} {
		ctx, cancel := context.WithTimeout(s.T.Context(), 5*time.Second)
		_, err := way[0].Network.Hello(ctx, s.ID(way[1]), p2p.Hello{Run: "sim"})
		cancel()
		if err != nil {
			return false
		}
	}
	return true
}

// A member that slept while the secret was changed is let in with the old one, fetches the new one
// and goes on; a ticket of before lets nobody in, one of after does.
func TestASleeperAndAnOldTicket(t *testing.T) {
	nodetest.RunPrivate(t, 60, 2, 20*time.Millisecond, func(s *nodetest.Swarm, founder *nodetest.Peer) {
		text := s.Invite(founder, p2pdiloco.InviteOptions{Uses: 3})
		member, sleeper := s.Guest(text), s.Guest(text)
		s.Start(member, sleeper)
		s.Reach(2, s.Peers...)
		r := listed(s, s.Peers...)
		s.Kill(sleeper)
		r.rotate(founder, []*nodetest.Peer{member})
		s.Reach(member.Applied()+2, founder, member) // the gossip has not split

		late := s.Guest(text)
		s.Start(late)
		if err := s.Outcome(late, time.After(time.Minute)); !errors.Is(err, p2pdiloco.ErrTicket) ||
			!strings.Contains(err.Error(), "has been changed since this ticket was made") {
			t.Errorf("a ticket of before: %v", err)
		}
		fresh := s.Guest(s.Invite(member, p2pdiloco.InviteOptions{}))
		s.Start(fresh)
		s.Until(time.Minute, "in with a new ticket", func() bool { return fresh.Had("run.joined") })

		sleeper.Config = func(c *p2pdiloco.Config) { c.Ticket, c.Spec = "", p2pdiloco.Spec{Name: "sim"} }
		s.Restart(sleeper)
		s.Until(time.Minute, "awake", func() bool { return sleeper.Node.Load() != nil && inside(s, sleeper, founder) })
		before := sleeper.Applied()
		if err := sleeper.Inside().Guard.Hold(s.T.Context(), r.key, peers{s.ID(member), s.ID(founder)}); err != nil {
			t.Fatal(err)
		}
		r.known(sleeper)
		s.Until(time.Minute, "in step", func() bool { return sleeper.Applied() > before+3 })
		s.Until(5*time.Second, "known to a peer that came while it slept",
			func() bool { return inside(s, sleeper, fresh) })
	})
}

// A peer that was let in and is no member yet when the secret is changed comes back with a ticket
// of after.
func TestANewcomerOfBeforeTheChange(t *testing.T) {
	nodetest.RunPrivate(t, 60, 2, 20*time.Millisecond, func(s *nodetest.Swarm, founder *nodetest.Peer) {
		text := s.Invite(founder, p2pdiloco.InviteOptions{Uses: 2})
		member, early := s.Guest(text), s.Guest(text)
		s.Start(member, early)
		s.Reach(2, s.Peers...)
		r := listed(s, founder, member)
		s.Kill(early)
		r.rotate(founder, []*nodetest.Peer{member})
		fresh := s.Invite(member, p2pdiloco.InviteOptions{})
		early.Config = func(c *p2pdiloco.Config) { c.Ticket, c.Spec = fresh, p2pdiloco.Spec{Name: "sim"} }
		s.Restart(early)
		s.Until(time.Minute, "in with the new ticket",
			func() bool { return early.Node.Load() != nil && inside(s, early, founder) })
		s.Until(time.Minute, "and with the others", func() bool { return inside(s, early, member) })
	})
}

// A peer that was removed has no stream left and gets no new one, at any protocol; not under
// another name with the secret that it knows, nor with the one that was agreed on while it was
// there.
func TestARemovedPeerIsOut(t *testing.T) {
	nodetest.RunPrivate(t, 1000, 2, 20*time.Millisecond, func(s *nodetest.Swarm, founder *nodetest.Peer) {
		text := s.Invite(founder, p2pdiloco.InviteOptions{Uses: 2})
		member, out := s.Guest(text), s.Guest(text)
		s.Start(member, out)
		s.Reach(2, s.Peers...)
		r := listed(s, s.Peers...)
		key, err := founder.Inside().Guard.Candidate()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*nodetest.Peer{founder, member} {
			if err := p.Inside().Guard.Hold(s.T.Context(), key, peers{s.ID(founder)}, s.ID(out)); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.Inside().Guard.Hold(s.T.Context(), key, peers{s.ID(founder), s.ID(member)}); err == nil {
			t.Fatal("a peer that is being removed was given the next secret")
		}
		r.rotate(founder, []*nodetest.Peer{member}, s.ID(out))
		time.Sleep(3 * time.Second)
		if inside(s, founder, out) || inside(s, out, member) {
			t.Error("a removed peer is let in")
		}
		x := nodetest.StrangerAt(s, out.Host)
		for proto := range nodetest.ToStrangers {
			if strings.HasPrefix(proto, "/p2pdiloco/") && proto != p2p.ProtocolAdmit &&
				!strings.HasPrefix(proto, "/p2pdiloco/kad") {
				for _, b := range append(x.Greetings(protocol.ID(proto)), wireMessage(key[:])) {
					if answer := x.Ask(founder, protocol.ID(proto), b); len(answer) > 0 {
						t.Errorf("%s answers a removed peer with %q", proto, answer)
					}
				}
			}
		}
		s.Kill(out) // or it would let in the peers that it knows
		again := s.Add()
		again.Config = func(c *p2pdiloco.Config) {
			c.Spec, c.AdmissionSecret = p2pdiloco.Spec{Name: "sim"}, filepath.Join(out.Dir, "admission.secret")
		}
		again.Boot = founder.Host
		s.Start(again)
		if err := s.Outcome(again, time.After(time.Minute)); err == nil ||
			!strings.Contains(err.Error(), "never was a member") {
			t.Errorf("under another name: %v", err)
		}
		s.Reach(founder.Applied()+2, founder, member)
	})
}

func wireMessage(b []byte) []byte { return append([]byte{0, 0, 0, byte(len(b))}, b...) }

// A newcomer that is no member yet when the secret is changed is put out; members are not.
func TestFollowPutsOutNewcomers(t *testing.T) {
	nodetest.RunPrivate(t, 1000, 1, 20*time.Millisecond, func(s *nodetest.Swarm, founder *nodetest.Peer) {
		text := s.Invite(founder, p2pdiloco.InviteOptions{Uses: 2})
		member, newcomer := s.Guest(text), s.Guest(text)
		s.Start(member, newcomer)
		s.Reach(1, s.Peers...)
		r := listed(s, founder, member)
		kept := s.Net.Hosts[founder.Host].Network().ConnsToPeer(peer.ID(s.ID(member)))
		r.rotate(founder, []*nodetest.Peer{member})
		if inside(s, founder, newcomer) {
			t.Error("a newcomer with the old secret is let in")
		}
		if got := s.Net.Hosts[founder.Host].Network().ConnsToPeer(peer.ID(s.ID(member))); len(got) == 0 ||
			got[0] != kept[0] {
			t.Error("a member lost its connection")
		}
		if !inside(s, founder, member) {
			t.Error("a member is not let in")
		}
	})
}

// A peer that asks for a secret believes an answer only if it is that secret, and waits for it as
// long as is set.
func TestHostileAnswersToWhoAsksForASecret(t *testing.T) {
	nodetest.RunPrivate(t, 1000, 1, time.Second, func(s *nodetest.Swarm, founder *nodetest.Peer) {
		liar := s.Guest(s.Invite(founder, p2pdiloco.InviteOptions{}))
		s.Start(liar)
		s.Reach(1, s.Peers...)
		r := listed(s, s.Peers...)
		r.rotate(founder, []*nodetest.Peer{liar})
		key, err := founder.Inside().Guard.Candidate()
		if err != nil {
			t.Fatal(err)
		}
		if err := founder.Inside().Guard.Hold(s.T.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
		honest := s.Guest(s.Invite(founder, p2pdiloco.InviteOptions{}))
		s.Start(honest)
		s.Reach(1, honest)
		r.ever = append(r.ever, s.ID(honest))
		r.known(s.Peers...)
		for what, c := range map[string]struct {
			answer []byte
			want   string
		}{
			"another secret": {
				wireMessage(proof.AppendKeyAnswer(nil, proof.Secret{6}, nil)),
				"another one than was asked for",
			},
			"none": {wireMessage(proof.AppendKeyAnswer(nil, proof.Secret{}, nil)), "not given"},
			"a refusal": {
				wireMessage(proof.AppendKeyAnswer(nil, proof.Secret{}, errors.New("no\x00"))),
				`no\x00`,
			},
			"much":    {append([]byte{0, 1, 0, 0}, make([]byte, 1<<16)...), wire.ErrTooLarge.Error()},
			"half":    {wireMessage(make([]byte, 20))[:10], "EOF"},
			"nothing": {nil, ""},
		} {
			liar.Network.Handle(p2p.ProtocolKey, func(_ p2pdiloco.PeerID, st wire.Stream) {
				_, _ = st.Write(c.answer)
				if len(c.answer) == 0 {
					time.Sleep(time.Minute)
				}
			})
			began := time.Now()
			err := honest.Inside().Guard.Hold(s.T.Context(), key, peers{s.ID(liar)})
			if err == nil || !strings.Contains(err.Error(), c.want) || honest.Inside().Guard.Holds(key) ||
				time.Since(began) > 20*time.Second {
				t.Errorf("%s: %v after %v", what, err, time.Since(began))
			}
		}
		if err := honest.Inside().Guard.Hold(s.T.Context(), key, peers{s.ID(liar), s.ID(founder)}); err != nil {
			t.Error(err)
		}
	})
}

// agreed says whether some peers know the same of tokens that were used, and something at all.
func agreed(peers ...*nodetest.Peer) bool {
	var all [][]byte
	for _, p := range peers {
		all = append(all, p.Inside().Guard.Used())
	}
	return len(all[0]) > 12 && len(slices.CompactFunc(all, slices.Equal)) == 1
}

// A peer that knows of the use of a token announces it again to a member that could not receive the
// first announcement.
func TestUsesOfTokensAreToldAgain(t *testing.T) {
	nodetest.RunPrivate(t, 1000, 1, 500*time.Millisecond, func(s *nodetest.Swarm, founder *nodetest.Peer) {
		guest := s.Guest(s.Invite(founder, p2pdiloco.InviteOptions{}))
		s.Start(guest)
		s.Reach(1, founder, guest)
		used := proof.Told{Used: []proof.Used{{
			ID: [ticket.IDSize]byte{7}, Expires: uint64(time.Now().Unix()) + 1000,
			Peers: peers{"somebody"},
		}}}
		guest.Inside().Guard.Learn(used.Append(nil))
		if agreed(founder, guest) {
			t.Fatal("they know the same already")
		}
		s.Until(20*time.Second, "told again", func() bool { return agreed(founder, guest) })
	})
}

// After one member's refusal another one, which knows better, may let the newcomer in.
func TestAskingOnAfterARefusal(t *testing.T) {
	nodetest.RunPrivate(t, 1000, 2, 200*time.Millisecond, func(s *nodetest.Swarm, founder *nodetest.Peer) {
		member := s.Guest(s.Invite(founder, p2pdiloco.InviteOptions{}))
		s.Start(member)
		s.Reach(1, founder, member)
		guest := s.Guest(s.Invite(founder, p2pdiloco.InviteOptions{}))
		list := func(at *nodetest.Peer, listed func(p2pdiloco.PeerID) bool) { at.Inside().Guard.List(listed) }
		others := func(p p2pdiloco.PeerID) bool { return p != s.ID(guest) }
		list(founder, others)
		list(member, others)
		s.Start(guest)
		time.Sleep(4 * time.Second) // both have refused; three discovery windows are not over
		list(member, nil)
		s.Until(time.Minute, "let in by the other one", func() bool { return guest.Node.Load() != nil })
	})
}
