package peers

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a host with the parts of this package, as a Network has them. Its pulses have a stream
// each.
type node struct {
	host    host.Host
	dialer  *Dialer
	members *Members
	signs   *Signs
	pulses  *Pulses
	changes *AddressChanges
	relays  atomic.Pointer[map[peer.ID]bool] // in use; nil: none
	late    atomic.Int64                     // nanoseconds that each pulse takes it
	// what picks bulk connections, the last time
	ended func(id peer.ID, local netip.Addr, opened time.Time) bool
}

func newNode(t *testing.T, s *sim.Net, i int) *node {
	t.Helper()
	h, group, log := s.Hosts[i], NewGroup(context.Background()), slog.New(slog.DiscardHandler)
	nobody := func(context.Context, peer.ID) (peer.AddrInfo, error) { return peer.AddrInfo{}, errors.New("not found") }
	env := NewEnv(h, group, nobody, DialConfig{}, log)
	n := &node{host: h, signs: NewSigns(), members: env.Members, dialer: env.Dialer}
	h.SetStreamHandler(ProtocolPulse, func(s network.Stream) {
		if _, err := io.ReadAll(s); err == nil {
			n.signs.Pulsed(s.Conn().RemotePeer())
		}
		_ = s.Close()
	})
	n.pulses = NewPulses(env, time.Second, n.signs, func(to slot.PeerID, msg []byte) {
		time.Sleep(time.Duration(n.late.Load()))
		group.Go(func() {
			s, err := h.NewStream(group.Context(), peer.ID(to), ProtocolPulse)
			if err == nil {
				_, _ = s.Write(msg)
				_ = s.Close()
			}
		})
	}, func() map[peer.ID]bool {
		if used := n.relays.Load(); used != nil {
			return *used
		}
		return nil
	})
	n.changes = NewAddressChanges(env, func(dead func(peer.ID, netip.Addr, time.Time) bool) { n.ended = dead })
	env.Dialer.Start()
	t.Cleanup(func() {
		group.Stop()
		group.Wait()
		h.RemoveStreamHandler(ProtocolPulse)
	})
	return n
}

// pair makes two nodes that are connected.
func pair(t *testing.T) (s *sim.Net, a, b *node) {
	t.Helper()
	s = sim.New(t, 2, 10*time.Millisecond)
	a, b = newNode(t, s, 0), newNode(t, s, 1)
	s.Connect(0, 1)
	return s, a, b
}

// members makes two nodes that take each other for members.
func members(t *testing.T) (s *sim.Net, a, b *node) {
	t.Helper()
	s, a, b = pair(t)
	a.members.Set(map[peer.ID]struct{}{b.host.ID(): {}})
	b.members.Set(map[peer.ID]struct{}{a.host.ID(): {}})
	a.pulses.Send(b.host.ID())
	b.pulses.Send(a.host.ID())
	time.Sleep(time.Minute)
	if !connected(a, b) || !connected(b, a) {
		t.Error("members that have nothing to say to each other are disconnected")
	}
	return s, a, b
}

func connected(a, b *node) bool {
	return a.host.Network().Connectedness(b.host.ID()) == network.Connected
}
