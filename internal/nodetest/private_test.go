package nodetest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// A Network that the caller lends is open again after a private run, for any other one, and serves
// nothing of the one before.
func TestANetworkOutlivesItsPrivateRun(t *testing.T) {
	Once(t, 1000, 1, func(s *Swarm) {
		host := s.Net.Add()
		network, err := p2p.New(s.T.Context(), p2p.LAN(), p2p.WithHost(s.Net.Hosts[host]))
		if err != nil {
			t.Fatal(err)
		}
		defer network.Close()
		for i, access := range []string{p2pdiloco.AccessPrivate, p2pdiloco.AccessPrivate, p2pdiloco.AccessOpen} {
			cfg := p2pdiloco.Config{Spec: s.Spec, Trainer: &Bowl{}, DataDir: t.TempDir(), Network: network}
			cfg.Spec.Access, cfg.Preset = access, p2pdiloco.PresetLAN
			n, err := p2pdiloco.Join(s.T.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			s.Net.Connect(0, host)
			_, during := s.Boot.Hello(s.T.Context(), network.ID(), p2p.Hello{Run: "sim"})
			if err := n.Close(); err != nil {
				t.Error(err)
			}
			s.Net.Connect(0, host)
			_, after := s.Boot.Hello(s.T.Context(), network.ID(), p2p.Hello{Run: "sim"})
			if (during == nil) != (access == p2pdiloco.AccessOpen) || after == nil && during != nil {
				t.Errorf("run %d, %s: a stranger's hello gives %v, and %v after it", i, access, during, after)
			}
		}
	})
}

// A ticket admits as many as it was made for, whichever members they ask, and a peer that
// was admitted comes back without it.
func TestPrivateRun(t *testing.T) {
	RunPrivate(t, 40, 3, 100*time.Millisecond, func(s *Swarm, founder *Peer) {
		text := s.Invite(founder, p2pdiloco.InviteOptions{Uses: 2})
		a, b := s.Guest(text), s.Guest(text)
		s.Start(a, b)
		s.Reach(2, s.Peers...)
		time.Sleep(10 * time.Second) // all know which peers were admitted
		late := s.Guest(text)
		s.Start(late)
		ends(s, late, p2pdiloco.ErrTicket, ": the ticket was for fewer peers than have used it: ask for a new one")
		s.Kill(a)
		a.Config = func(c *p2pdiloco.Config) { c.Ticket, c.Spec = "", p2pdiloco.Spec{Name: "sim"} }
		a.Boot = b.Host
		s.Restart(a)
		s.Finish(3*time.Minute, founder, a, b)
		if !s.ContributedAfter(a, 0) || !s.ContributedAfter(b, 0) || late.Applied() > 0 {
			t.Error("those with a ticket contributed nothing, or one without took part")
		}
		if info, err := os.Stat(filepath.Join(a.Dir, "admission.secret")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the secret's file: %v, %v", info, err)
		}
	})
}

// A member whose secret is gone gets it back with a new ticket, and is in the run's gossip again.
func TestALostSecretIsGivenAgain(t *testing.T) {
	RunPrivate(t, 40, 2, 20*time.Millisecond, func(s *Swarm, founder *Peer) {
		guest := s.Guest(s.Invite(founder, p2pdiloco.InviteOptions{}))
		s.Start(guest)
		s.Reach(2, founder, guest)
		s.Kill(guest)
		Remove(t, guest, "admission.secret")
		text := s.Invite(founder, p2pdiloco.InviteOptions{})
		guest.Config = func(c *p2pdiloco.Config) { c.Spec, c.Ticket = p2pdiloco.Spec{}, text }
		s.Restart(guest)
		s.Until(time.Minute, "in the run's gossip again", func() bool {
			i := guest.Inside()
			return i != nil && slices.Contains(i.Topic.Peers(), s.ID(founder))
		})
		s.Finish(2*time.Minute, founder, guest)
	})
}

// A peer that has the founder's secret needs no ticket, and finds the run by its name.
func TestSecretInsteadOfATicket(t *testing.T) {
	RunPrivate(t, 8, 2, 10*time.Millisecond, func(s *Swarm, founder *Peer) {
		p, q := s.Add(), s.Add()
		p.Config = func(c *p2pdiloco.Config) {
			c.Spec, c.AdmissionSecret = p2pdiloco.Spec{Name: "sim"}, filepath.Join(founder.Dir, "admission.secret")
		}
		wrong := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(wrong, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
			t.Fatal(err)
		}
		q.Config = func(c *p2pdiloco.Config) { c.Spec, c.AdmissionSecret = p2pdiloco.Spec{Name: "sim"}, wrong }
		s.Start(p, q)
		s.Finish(2*time.Minute, founder, p)
		if q.Applied() > 0 || q.Had("run.joined") {
			t.Error("a peer with another secret takes part")
		}
	})
}

// An expired token is refused by the members, too, whatever the newcomer's clock says; and so is
// one that was changed.
func TestTokensOfNoUse(t *testing.T) {
	RunPrivate(t, 1000, 1, time.Second, func(s *Swarm, founder *Peer) {
		short := s.Invite(founder, p2pdiloco.InviteOptions{TTL: time.Second})
		time.Sleep(5 * time.Minute)
		p := s.Guest(short)
		s.Start(p)
		ends(s, p, p2pdiloco.ErrTicket, "expired")
	})
}

// A member's connection that breaks is admitted again, without anybody's doing.
func TestAdmittedAgain(t *testing.T) {
	RunPrivate(t, 60, 2, 10*time.Millisecond, func(s *Swarm, founder *Peer) {
		guest := s.Guest(s.Invite(founder, p2pdiloco.InviteOptions{}))
		s.Start(guest)
		s.Reach(2, founder, guest)
		var all sync.WaitGroup
		for _, c := range s.Net.Hosts[founder.Host].Network().ConnsToPeer(peer.ID(s.ID(guest))) {
			all.Go(func() { _ = c.Close() })
		}
		all.Wait()
		st, err := founder.Network.Open(s.T.Context(), s.ID(guest), p2p.ProtocolHello)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Reset() //nolint:errcheck // it was opened
		if err := wire.WriteMessage(st, nil); err != nil {
			t.Error(err)
		}
		s.Finish(time.Minute, founder, guest)
	})
}
