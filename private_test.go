package p2pdiloco

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// inPrivate is inSim with a run that its only peer has founded as a private one, with inner steps of this length.
func inPrivate(t *testing.T, rounds, startPeers uint64, step time.Duration, f func(s *swarm, founder *simPeer)) {
	inSim(t, 10*time.Millisecond, simSpec(rounds, startPeers), 1, func(s *swarm) {
		founder := s.peers[0]
		founder.config = func(c *Config) { c.Spec.Access = AccessPrivate }
		s.pace(step)
		s.start(founder)
		s.until(time.Minute, "founded", func() bool { return founder.had("run.founded") })
		f(s, founder)
	})
}

// A ticket admits as many as it was made for, whichever members they ask, and who was admitted comes back without it.
func TestPrivateRun(t *testing.T) {
	inPrivate(t, 40, 3, 100*time.Millisecond, func(s *swarm, founder *simPeer) {
		text := s.invite(founder, InviteOptions{Uses: 2})
		a, b := s.guest(text), s.guest(text)
		s.start(a, b)
		s.reach(2, s.peers...)
		s.until(10*time.Second, "known to all who was admitted", func() bool { return s.agreed(s.peers...) })
		late := s.guest(text)
		s.start(late)
		select {
		case err := <-late.done:
			if !errors.Is(err, ErrTicket) || !strings.HasSuffix(err.Error(), ": the ticket was for fewer peers than have used it: ask for a new one") {
				t.Errorf("a third one with a ticket for two: %v", err)
			}
			late.done <- err
			s.stop(late)
		case <-time.After(time.Minute):
			t.Fatal("a third one with a ticket for two was not refused")
		}
		s.kill(a)
		a.config = func(c *Config) { c.Ticket, c.Spec = "", Spec{Name: "sim"} }
		a.boot = b.host
		s.restart(a)
		s.finish(3*time.Minute, founder, a, b)
		if !s.contributed(a) || !s.contributed(b) || late.applied() > 0 {
			t.Error("those with a ticket contributed nothing, or one without took part")
		}
		if info, err := os.Stat(filepath.Join(a.dir, secretFile)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the secret's file: %v, %v", info, err)
		}
	})
}

// agreed says whether some peers know the same of tokens that were used, and something at all.
func (s *swarm) agreed(peers ...*simPeer) bool {
	var all [][]byte
	for _, p := range peers {
		d := p.node.Load().doorman
		d.mu.Lock()
		all = append(all, d.mu.Used.Told().Append(nil))
		d.mu.Unlock()
	}
	return len(all[0]) > 12 && len(slices.CompactFunc(all, slices.Equal)) == 1
}

// A use that was announced while a member could not hear it is told again, by who knows of it to who does not.
func TestUsesOfTokensAreToldAgain(t *testing.T) {
	inPrivate(t, 1000, 1, 500*time.Millisecond, func(s *swarm, founder *simPeer) {
		guest := s.guest(s.invite(founder, InviteOptions{}))
		s.start(guest)
		s.reach(1, founder, guest)
		used := admission.Told{Used: []admission.Used{{ID: [ticket.IDSize]byte{7}, Expires: now() + 1000, Peers: []PeerID{"somebody"}}}}
		guest.node.Load().doorman.learn(used.Append(nil))
		if s.agreed(founder, guest) {
			t.Fatal("they know the same already")
		}
		s.until(20*time.Second, "told again", func() bool { return s.agreed(founder, guest) })
	})
}

// A member whose secret is gone gets it back with a new ticket, and is in the run's gossip again.
func TestALostSecretIsGivenAgain(t *testing.T) {
	inPrivate(t, 40, 2, 20*time.Millisecond, func(s *swarm, founder *simPeer) {
		guest := s.guest(s.invite(founder, InviteOptions{}))
		s.start(guest)
		s.reach(2, founder, guest)
		s.kill(guest)
		if err := os.Remove(filepath.Join(guest.dir, secretFile)); err != nil {
			t.Fatal(err)
		}
		text := s.invite(founder, InviteOptions{})
		guest.config = func(c *Config) { c.Spec, c.Ticket = Spec{}, text }
		s.restart(guest)
		s.until(time.Minute, "in the run's gossip again", func() bool {
			n := guest.node.Load()
			return n != nil && slices.Contains(n.transport.topic.Peers(), s.id(founder))
		})
		s.finish(2*time.Minute, founder, guest)
	})
}

// One member's refusal is not the last word: another one, that knows better, may let the newcomer in.
func TestAskingOnAfterARefusal(t *testing.T) {
	inPrivate(t, 1000, 2, 200*time.Millisecond, func(s *swarm, founder *simPeer) {
		member := s.guest(s.invite(founder, InviteOptions{}))
		s.start(member)
		s.reach(1, founder, member)
		guest := s.guest(s.invite(founder, InviteOptions{}))
		list := func(at *simPeer, listed func(PeerID) bool) {
			d := at.node.Load().doorman
			d.mu.Lock()
			defer d.mu.Unlock()
			d.mu.Listed = listed
		}
		others := func(p PeerID) bool { return p != s.id(guest) }
		list(founder, others)
		list(member, others)
		s.start(guest)
		time.Sleep(4 * time.Second) // both have refused; three discovery windows are not over
		list(member, nil)
		s.until(time.Minute, "let in by the other one", func() bool { return guest.node.Load() != nil })
	})
}

// Who has the founder's secret needs no ticket, and finds the run by its name.
func TestSecretInsteadOfATicket(t *testing.T) {
	inPrivate(t, 8, 2, 10*time.Millisecond, func(s *swarm, founder *simPeer) {
		p, q := s.add(), s.add()
		p.config = func(c *Config) {
			c.Spec, c.AdmissionSecret = Spec{Name: "sim"}, filepath.Join(founder.dir, secretFile)
		}
		wrong := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(wrong, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
			t.Fatal(err)
		}
		q.config = func(c *Config) { c.Spec, c.AdmissionSecret = Spec{Name: "sim"}, wrong }
		s.start(p, q)
		s.finish(2*time.Minute, founder, p)
		if q.applied() > 0 || q.had("run.joined") {
			t.Error("a peer with another secret takes part")
		}
	})
}

// An expired token is refused by the members, too, whatever the newcomer's clock says; and so is one that was changed.
func TestTokensOfNoUse(t *testing.T) {
	inPrivate(t, 1000, 1, time.Second, func(s *swarm, founder *simPeer) {
		short := s.invite(founder, InviteOptions{TTL: time.Second})
		time.Sleep(5 * time.Minute)
		p := s.guest(short)
		s.start(p)
		err := <-p.done
		p.done <- err
		s.stop(p)
		if !errors.Is(err, ErrTicket) || !strings.Contains(err.Error(), "expired") {
			t.Errorf("an expired ticket: %v", err)
		}
	})
}

// Where there is a list of peers, others are told so in hello, and have no stream of anything else.
func TestOnlyThoseListed(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(8, 2), 3, func(s *swarm) {
		var list []PeerID
		for _, p := range s.peers[:2] {
			list = append(list, s.id(p))
		}
		for _, p := range s.peers[:2] {
			p.config = func(c *Config) { c.Allow = list }
		}
		out := s.peers[2]
		out.config = func(c *Config) { c.Spec = Spec{Name: "sim"}; c.Trainer = nil }
		s.start(s.peers...)
		s.reach(2, s.peers[:2]...)
		_, err := out.network.Hello(s.t.Context(), list[0], p2p.Hello{Run: "sim"})
		var refused *p2p.HelloRefused
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "not on the list") {
			t.Errorf("hello of one that is not listed: %v", err)
		}
		began := time.Now()
		if st, err := out.network.Open(s.t.Context(), list[0], p2p.ProtocolState); err == nil {
			_, _ = st.Read(make([]byte, 1))
			_ = st.Reset()
		}
		if time.Since(began) > 5*time.Second { // what is served waits longer for a request
			t.Error("one that is not listed may ask for states")
		}
		s.finish(time.Minute, s.peers[:2]...)
		if out.applied() > 0 {
			t.Error("one that is not listed takes part")
		}
	})
}

// A member's connection that breaks is admitted again, without anybody's doing.
func TestAdmittedAgain(t *testing.T) {
	inPrivate(t, 60, 2, 10*time.Millisecond, func(s *swarm, founder *simPeer) {
		guest := s.guest(s.invite(founder, InviteOptions{}))
		s.start(guest)
		s.reach(2, founder, guest)
		var all sync.WaitGroup
		for _, c := range s.net.Hosts[founder.host].Network().ConnsToPeer(peer.ID(s.id(guest))) {
			all.Go(func() { _ = c.Close() })
		}
		all.Wait()
		st, err := founder.network.Open(s.t.Context(), s.id(guest), p2p.ProtocolHello)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Reset() //nolint:errcheck // it was opened
		if err := wire.WriteMessage(st, nil); err != nil {
			t.Error(err)
		}
		s.finish(time.Minute, founder, guest)
	})
}

// A Network that the caller gave is open again after Close, for another private run, and serves nothing of the one before.
func TestANetworkOutlivesItsPrivateRun(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(1000, 1), 0, func(s *swarm) {
		network, err := p2p.New(s.t.Context(), p2p.LAN(), p2p.WithHost(s.net.Hosts[s.net.Add()]))
		if err != nil {
			t.Fatal(err)
		}
		defer network.Close()
		for range 2 {
			cfg := Config{Spec: s.spec, Trainer: &bowl{}, DataDir: t.TempDir(), Network: network, Preset: PresetLAN}
			cfg.Spec.Access = AccessPrivate
			n, err := Join(s.t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
			s.net.Connect(0, len(s.net.Hosts)-1)
			if h, err := s.boot.Hello(s.t.Context(), network.ID(), p2p.Hello{Run: "sim"}); err == nil {
				t.Errorf("a stranger is told %+v", h)
			}
		}
	})
}
