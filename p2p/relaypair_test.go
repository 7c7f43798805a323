package p2p

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// memberNet is members that relay for each other, as far as change lets them.
type memberNet struct {
	*sim.Net
	all []*Network
}

// among runs f with so many members, all of which are connected.
func among(t *testing.T, n int, change func(i int, cfg *Config), f func(t *testing.T, s *memberNet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &memberNet{Net: sim.NewMemory(t, n, 10*time.Millisecond)}
		var ids []slot.PeerID
		for i := range n {
			cfg := LAN()
			cfg.Relay = MemberRelay()
			if change != nil {
				change(i, &cfg)
			}
			s.all = append(s.all, simulated(t, s.Net, i, cfg))
			ids = append(ids, s.all[i].ID())
			s.all[i].Handle(ProtocolExchange, func(_ slot.PeerID, st wire.Stream) {
				if b, err := io.ReadAll(st); err == nil {
					_, _ = st.Write(b)
				}
			})
		}
		for _, m := range s.all {
			m.Protect(ids)
		}
		s.ConnectAll()
		time.Sleep(5 * time.Second) // places with relays are asked for, and announced
		f(t, s)
	})
}

// echoed sends b from one member to another, and returns what comes back.
func (s *memberNet) echoed(t *testing.T, from, to int, b []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	st, err := s.all[from].OpenBulk(ctx, s.all[to].ID(), ProtocolExchange)
	if err != nil {
		return nil, err
	}
	defer st.Reset() //nolint:errcheck // all was read
	_ = st.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := st.Write(b); err != nil {
		return nil, err
	}
	if err := st.CloseWrite(); err != nil {
		return nil, err
	}
	return io.ReadAll(st)
}

// meets checks that a pair is connected through a member, both ways, within some time.
func (s *memberNet) meets(t *testing.T, i, j int, within time.Duration) (relay int) {
	t.Helper()
	eventually(t, within, "a way through a member", func() bool {
		if !connected(s.all[i], s.all[j]) { // what is sent has it looked for
			_, _ = s.all[i].Open(t.Context(), s.all[j].ID(), ProtocolHello)
		}
		return pathTo(s.all[i], s.all[j]).Way == WayRelayed && pathTo(s.all[j], s.all[i]).Way == WayRelayed
	})
	p := pathTo(s.all[i], s.all[j])
	if p.Limited {
		t.Errorf("%d reaches %d by a limited way: %+v", i, j, p)
	}
	for _, ends := range [][2]int{{i, j}, {j, i}} {
		got, err := s.echoed(t, ends[0], ends[1], vector())
		if err != nil || !bytes.Equal(got, vector()) {
			t.Errorf("%d to %d: %d bytes of %d came back: %v", ends[0], ends[1], len(got), len(vector()), err)
		}
	}
	return slices.IndexFunc(s.all, func(n *Network) bool { return n.ID() == p.Relay })
}

func vector() []byte { return slices.Repeat([]byte("all that a segment holds "), 50_000) }

// TestACutPairMeetsThroughAMember: two pairs whose packets are dropped have another way as soon as
// the silence is noticed, whatever was open before; and the direct one once there is one again.
func TestACutPairMeetsThroughAMember(t *testing.T) {
	among(t, 5, nil, func(t *testing.T, s *memberNet) {
		for i, n := range s.all {
			if held := n.Reach().Relays; len(held) != 2 {
				t.Errorf("%d is reached through %d members", i, len(held))
			}
		}
		s.Cut(0, 1)
		s.Cut(2, 3)
		s.meets(t, 0, 1, 6*time.Second)
		s.meets(t, 2, 3, time.Second)
		for range 5 { // longer than the addresses of who is not connected are known
			time.Sleep(5 * time.Minute)
			s.meets(t, 0, 1, time.Second)
		}
		s.Heal(0, 1)
		eventually(t, 6*time.Minute, "a direct way", func() bool { return pathTo(s.all[0], s.all[1]).Way == WayDirect })
		s.meets(t, 2, 3, time.Second)
	})
}

// TestTheRelayOfAPairDies: the other one serves, and its place is taken by a third.
func TestTheRelayOfAPairDies(t *testing.T) {
	among(t, 5, nil, func(t *testing.T, s *memberNet) {
		s.Cut(0, 1)
		for range 2 {
			first := s.meets(t, 0, 1, 10*time.Second)
			s.Isolate(first)
			eventually(t, 10*time.Second, "another way", func() bool {
				p := pathTo(s.all[0], s.all[1])
				return p.Way == WayRelayed && p.Relay != s.all[first].ID()
			})
			time.Sleep(10 * time.Second)
		}
		s.meets(t, 0, 1, time.Second)
	})
}

// TestOnlyOneMemberCanBeReached: all the others meet through it.
func TestOnlyOneMemberCanBeReached(t *testing.T) {
	among(t, 5, nil, func(t *testing.T, s *memberNet) {
		for i := range 4 {
			for j := range i {
				s.Cut(i, j)
			}
		}
		time.Sleep(10 * time.Second)
		for i := range 4 {
			for j := range i {
				if relay := s.meets(t, i, j, 30*time.Second); relay != 4 {
					t.Errorf("%d and %d meet through %d", i, j, relay)
				}
			}
		}
	})
}

// TestTwoSitesWithOneMemberInCommon have three members each, who reach each other and one more.
// Each has two places with relays, and the one that all reach is among these by and by.
func TestTwoSitesWithOneMemberInCommon(t *testing.T) {
	among(t, 7, nil, func(t *testing.T, s *memberNet) {
		var pairs [][2]int
		for i := range 3 {
			for j := 3; j < 6; j++ {
				s.Cut(i, j)
				pairs = append(pairs, [2]int{i, j})
			}
		}
		for range 60 {
			time.Sleep(5 * time.Second)
			pairs = slices.DeleteFunc(pairs, func(p [2]int) bool {
				_, err := s.echoed(t, p[0], p[1], []byte("are you there?"))
				return err == nil
			})
		}
		if len(pairs) > 0 {
			t.Errorf("apart after five minutes: %v", pairs)
		}
	})
}

// TestAPairThatNeverConnected finds each other's ways through members by asking those.
func TestAPairThatNeverConnected(t *testing.T) {
	among(t, 4, nil, func(t *testing.T, s *memberNet) {
		s.Cut(0, 1)
		time.Sleep(5 * time.Second)
		for i := range 2 {
			a, b := s.all[i], peer.ID(s.all[1-i].ID())
			_ = a.Host().Network().ClosePeer(b)
			a.Host().Peerstore().ClearAddrs(b)
		}
		s.echoed(t, 0, 1, []byte("where are you?")) //nolint:errcheck // has it looked for
		s.meets(t, 0, 1, 20*time.Second)
	})
}

// TestMembersRelayForNobodyElse: neither who is in no run of theirs is served, nor who wants to
// reach such a one.
func TestMembersRelayForNobodyElse(t *testing.T) {
	among(t, 3, nil, func(t *testing.T, s *memberNet) {
		i := s.Add()
		stranger := simulated(t, s.Net, i, LAN())
		for j := range 3 {
			s.Connect(i, j)
		}
		a := peer.ID(s.all[0].ID())
		s.Cut(i, 0)
		_ = stranger.Host().Network().ClosePeer(a)
		time.Sleep(30 * time.Second)
		stranger.Host().Peerstore().AddAddrs(a, s.all[0].Host().Addrs(), time.Hour)
		if err := stranger.env.Dialer.Connect(t.Context(), peer.AddrInfo{ID: a}); err == nil {
			t.Error("a stranger is relayed for")
		}
		if len(stranger.Reach().Relays) > 0 {
			t.Errorf("a stranger is reached through %v", stranger.Reach().Relays)
		}
	})
}

// TestMembersAreRelayedAtAnyRate: the bounds for peers that are not members hold up no reduction.
// Those that this peer has set for itself do.
func TestMembersAreRelayedAtAnyRate(t *testing.T) {
	for _, upload := range []int64{0, 10_000_000} {
		bounded := func(_ int, cfg *Config) { cfg.Relay.Total, cfg.MaxUpload = 1_000_000, upload }
		among(t, 3, bounded, func(t *testing.T, s *memberNet) {
			s.Cut(0, 1)
			s.meets(t, 0, 1, 10*time.Second)
			began, b := time.Now(), bytes.Repeat(vector(), 8) // 10 MB
			if _, err := s.echoed(t, 0, 1, b); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); upload == 0 && took > 5*time.Second || upload > 0 && took < 7*time.Second {
				t.Errorf("with an upload of %d %d bytes each way took %v", upload, len(b), took)
			}
		})
	}
}

// TestADeadConnectionIsGivenUpByBothSides: one of the two notices that their packets are dropped,
// and comes through a relay. What the other one sends must not go to the dead connection.
func TestADeadConnectionIsGivenUpByBothSides(t *testing.T) {
	among(t, 4, nil, func(t *testing.T, s *memberNet) {
		s.Cut(0, 1)
		_ = s.all[1].Host().Network().ClosePeer(peer.ID(s.all[0].ID()))
		s.meets(t, 0, 1, 2500*time.Millisecond) // before pulses are missed
	})
}
