package p2pdiloco

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

	"github.com/p2pdiloco/p2pdiloco/internal/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// records stand for what the run's records say of access.
type records struct {
	s       *swarm
	key     Root
	ever    []PeerID
	removed []PeerID
}

func (r *records) standing(p PeerID) (ever, removed bool) {
	return slices.Contains(r.ever, p), slices.Contains(r.removed, p)
}

// known lets peers know the records. All their members are listed.
func (r *records) known(peers ...*simPeer) {
	r.s.t.Helper()
	for _, p := range peers {
		if err := r.s.doorman(p).follow(access{r.key, r.standing}); err != nil {
			r.s.t.Fatalf("host %d: %v", p.host, err)
		}
	}
}

// rotate puts a secret of one peer's in force, without some members, once the others hold it.
func (r *records) rotate(by *simPeer, holders []*simPeer, without ...PeerID) {
	r.s.t.Helper()
	key, err := r.s.doorman(by).candidate()
	if err != nil {
		r.s.t.Fatal(err)
	}
	for _, p := range append([]*simPeer{by}, holders...) {
		if err := r.s.doorman(p).holdKey(r.s.t.Context(), key, []PeerID{r.s.id(p), r.s.id(by)}, without...); err != nil {
			r.s.t.Fatalf("host %d: %v", p.host, err)
		}
	}
	r.key, r.removed = key, append(r.removed, without...)
	r.known(append(holders, by)...)
}

func (s *swarm) doorman(p *simPeer) *doorman { return p.node.Load().doorman }

// listed are records that list some peers, known to all of them.
func (s *swarm) listed(peers ...*simPeer) *records {
	r := &records{s: s}
	for _, p := range peers {
		r.ever = append(r.ever, s.id(p))
	}
	r.known(peers...)
	return r
}

// inside are the peers that have let each other in: a stream of hello goes both ways.
func (s *swarm) inside(a, b *simPeer) bool {
	for _, way := range [][2]*simPeer{{a, b}, {b, a}} {
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		_, err := way[0].network.Hello(ctx, s.id(way[1]), p2p.Hello{Run: "sim"})
		cancel()
		if err != nil {
			return false
		}
	}
	return true
}

// A member that slept while the secret was changed is let in with the old one, fetches the new one and goes on; a ticket of before lets nobody in, one of
// after does.
func TestASleeperAndAnOldTicket(t *testing.T) {
	inPrivate(t, 60, 2, 20*time.Millisecond, func(s *swarm, founder *simPeer) {
		text := s.invite(founder, InviteOptions{Uses: 3})
		member, sleeper := s.guest(text), s.guest(text)
		s.start(member, sleeper)
		s.reach(2, s.peers...)
		r := s.listed(s.peers...)
		s.kill(sleeper)
		r.rotate(founder, []*simPeer{member})
		s.reach(member.applied()+2, founder, member) // the gossip has not split

		late := s.guest(text)
		s.start(late)
		if err := s.outcome(late, time.After(time.Minute)); !errors.Is(err, ErrTicket) || !strings.Contains(err.Error(), "has been changed since this ticket was made") {
			t.Errorf("a ticket of before: %v", err)
		}
		fresh := s.guest(s.invite(member, InviteOptions{}))
		s.start(fresh)
		s.until(time.Minute, "in with a new ticket", func() bool { return fresh.had("run.joined") })

		sleeper.config = func(c *Config) { c.Ticket, c.Spec = "", Spec{Name: "sim"} }
		s.restart(sleeper)
		s.until(time.Minute, "awake", func() bool { return sleeper.node.Load() != nil && s.inside(sleeper, founder) })
		before := sleeper.applied()
		if err := s.doorman(sleeper).holdKey(s.t.Context(), r.key, []PeerID{s.id(member), s.id(founder)}); err != nil {
			t.Fatal(err)
		}
		r.known(sleeper)
		s.until(time.Minute, "in step", func() bool { return sleeper.applied() > before+3 })
		s.until(5*time.Second, "known to who came while it slept", func() bool { return s.inside(sleeper, fresh) })
	})
}

// Who was let in and is no member yet when the secret is changed comes back with a ticket of after.
func TestANewcomerOfBeforeTheChange(t *testing.T) {
	inPrivate(t, 60, 2, 20*time.Millisecond, func(s *swarm, founder *simPeer) {
		text := s.invite(founder, InviteOptions{Uses: 2})
		member, early := s.guest(text), s.guest(text)
		s.start(member, early)
		s.reach(2, s.peers...)
		r := s.listed(founder, member)
		s.kill(early)
		r.rotate(founder, []*simPeer{member})
		fresh := s.invite(member, InviteOptions{})
		early.config = func(c *Config) { c.Ticket, c.Spec = fresh, Spec{Name: "sim"} }
		s.restart(early)
		s.until(time.Minute, "in with the new ticket", func() bool { return early.node.Load() != nil && s.inside(early, founder) })
		s.until(time.Minute, "and with the others", func() bool { return s.inside(early, member) })
	})
}

// Who was removed has no stream left and gets no new one, at any protocol; not under another name with the secret that it knows, nor with the one that was
// agreed on while it was there.
func TestARemovedPeerIsOut(t *testing.T) {
	inPrivate(t, 1000, 2, 20*time.Millisecond, func(s *swarm, founder *simPeer) {
		text := s.invite(founder, InviteOptions{Uses: 2})
		member, out := s.guest(text), s.guest(text)
		s.start(member, out)
		s.reach(2, s.peers...)
		r := s.listed(s.peers...)
		key, err := s.doorman(founder).candidate()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*simPeer{founder, member} {
			if err := s.doorman(p).holdKey(s.t.Context(), key, []PeerID{s.id(founder)}, s.id(out)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.doorman(out).holdKey(s.t.Context(), key, []PeerID{s.id(founder), s.id(member)}); err == nil {
			t.Fatal("who is being removed was given the next secret")
		}
		r.rotate(founder, []*simPeer{member}, s.id(out))
		time.Sleep(3 * time.Second)
		if s.inside(founder, out) || s.inside(out, member) {
			t.Error("who was removed is let in")
		}
		x := &stranger{s: s, host: out.host}
		for proto := range toStrangers {
			if strings.HasPrefix(proto, "/p2pdiloco/") && proto != p2p.ProtocolAdmit && !strings.HasPrefix(proto, "/p2pdiloco/kad") {
				for _, b := range append(x.greetings(protocol.ID(proto)), wireMessage(key[:])) {
					if answer := x.hear(founder, protocol.ID(proto), b); len(answer) > 0 {
						t.Errorf("%s answers who was removed with %q", proto, answer)
					}
				}
			}
		}
		s.kill(out) // or it would let in whom it knows
		again := s.add()
		again.config = func(c *Config) {
			c.Spec, c.AdmissionSecret = Spec{Name: "sim"}, filepath.Join(out.dir, secretFile)
		}
		again.boot = founder.host
		s.start(again)
		if err := s.outcome(again, time.After(time.Minute)); err == nil || !strings.Contains(err.Error(), "never was a member") {
			t.Errorf("under another name: %v", err)
		}
		s.reach(founder.applied()+2, founder, member)
	})
}

func wireMessage(b []byte) []byte { return append([]byte{0, 0, 0, byte(len(b))}, b...) }

// A newcomer that is no member yet when the secret is changed is put out; members are not.
func TestFollowPutsOutNewcomers(t *testing.T) {
	inPrivate(t, 1000, 1, 20*time.Millisecond, func(s *swarm, founder *simPeer) {
		text := s.invite(founder, InviteOptions{Uses: 2})
		member, newcomer := s.guest(text), s.guest(text)
		s.start(member, newcomer)
		s.reach(1, s.peers...)
		r := s.listed(founder, member)
		kept := s.net.Hosts[founder.host].Network().ConnsToPeer(peer.ID(s.id(member)))
		r.rotate(founder, []*simPeer{member})
		if s.inside(founder, newcomer) {
			t.Error("a newcomer with the old secret is let in")
		}
		if got := s.net.Hosts[founder.host].Network().ConnsToPeer(peer.ID(s.id(member))); len(got) == 0 || got[0] != kept[0] {
			t.Error("a member lost its connection")
		}
		if !s.inside(founder, member) {
			t.Error("a member is not let in")
		}
	})
}

// What others answer to who asks for a secret is believed only if it is that secret, and waited for as long as is set.
func TestHostileAnswersToWhoAsksForASecret(t *testing.T) {
	inPrivate(t, 1000, 1, time.Second, func(s *swarm, founder *simPeer) {
		liar := s.guest(s.invite(founder, InviteOptions{}))
		s.start(liar)
		s.reach(1, s.peers...)
		r := s.listed(s.peers...)
		r.rotate(founder, []*simPeer{liar})
		key, err := s.doorman(founder).candidate()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.doorman(founder).holdKey(s.t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
		honest := s.guest(s.invite(founder, InviteOptions{}))
		s.start(honest)
		s.reach(1, honest)
		r.ever = append(r.ever, s.id(honest))
		r.known(s.peers...)
		for what, c := range map[string]struct {
			answer []byte
			want   string
		}{
			"another secret": {wireMessage(admission.AppendKeyAnswer(nil, admission.Secret{6}, nil)), "another one than was asked for"},
			"none":           {wireMessage(admission.AppendKeyAnswer(nil, admission.Secret{}, nil)), "not given"},
			"a refusal":      {wireMessage(admission.AppendKeyAnswer(nil, admission.Secret{}, errors.New("no\x00"))), `no\x00`},
			"much":           {append([]byte{0, 1, 0, 0}, make([]byte, 1<<16)...), wire.ErrTooLarge.Error()},
			"half":           {wireMessage(make([]byte, 20))[:10], "EOF"},
			"nothing":        {nil, ""},
		} {
			liar.network.Handle(p2p.ProtocolKey, func(_ PeerID, st wire.Stream) {
				_, _ = st.Write(c.answer)
				if len(c.answer) == 0 {
					time.Sleep(time.Minute)
				}
			})
			began := time.Now()
			err := s.doorman(honest).holdKey(s.t.Context(), key, []PeerID{s.id(liar)})
			if err == nil || !strings.Contains(err.Error(), c.want) || s.doorman(honest).holds(key) || time.Since(began) > 2*keyTimeout {
				t.Errorf("%s: %v after %v", what, err, time.Since(began))
			}
		}
		if err := s.doorman(honest).holdKey(s.t.Context(), key, []PeerID{s.id(liar), s.id(founder)}); err != nil {
			t.Error(err)
		}
	})
}
