package nat

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2/pb"
	"github.com/libp2p/go-msgio/pbio"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// lies has a host say that it reached whatever it is asked to try. Its proof comes over the
// connection that there is anyway.
func lies(h host.Host) (asked *atomic.Int32) {
	asked = new(atomic.Int32)
	h.SetStreamHandler(autonatv2.DialProtocol, func(s network.Stream) {
		defer s.Close()
		asked.Add(1)
		var msg pb.Message
		if pbio.NewDelimitedReader(s, 8192).ReadMsg(&msg) != nil {
			return
		}
		back, err := h.NewStream(context.Background(), s.Conn().RemotePeer(), autonatv2.DialBackProtocol)
		if err != nil {
			return
		}
		defer back.Close()
		_ = pbio.NewDelimitedWriter(back).WriteMsg(&pb.DialBack{Nonce: msg.GetDialRequest().GetNonce()})
		said := &pb.DialResponse{Status: pb.DialResponse_OK, DialStatus: pb.DialStatus_OK}
		_ = pbio.NewDelimitedWriter(s).WriteMsg(&pb.Message{Msg: &pb.Message_DialResponse{DialResponse: said}})
	})
	return asked
}

// Strangers are not asked whether this peer's addresses can be reached: AutoNATv2 believes what
// they say. Once one is a member it is asked, and no more when it is none.
func TestOnlyTrustedPeersSayWhatIsReachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const liars = 8
		hints := &Hints{}
		known, err := hints.Peerstore()
		if err != nil {
			t.Fatal(err)
		}
		s := sim.New(t, liars+1, 10*time.Millisecond)
		s.Options = []libp2p.Option{libp2p.Peerstore(known)}
		h := s.Hosts[s.Add()]
		group := peers.NewGroup(t.Context())
		defer func() { group.Stop(); group.Wait() }()
		env := Env{Env: peers.NewEnv(h, group, nil, peers.DialConfig{}, slog.New(slog.DiscardHandler))}
		hints.trust(env.trusted)
		group.Go(func() { hints.watch(env) })
		client, err := autonatv2.New(s.Hosts[liars])
		if err == nil {
			err = client.Start(h)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		var asked []*atomic.Int32
		for i := range liars {
			asked = append(asked, lies(s.Hosts[i]))
			s.Connect(i, liars+1)
		}
		time.Sleep(10 * time.Second)
		ask := func() error {
			_, err := client.GetReachability(t.Context(), []autonatv2.Request{
				{Addr: multiaddr.StringCast("/ip4/9.9.9.9/udp/1/quic-v1")},
			})
			return err
		}
		if err := ask(); err == nil {
			t.Error("a stranger was believed")
		}
		env.Members.Set(map[peer.ID]struct{}{s.Hosts[3].ID(): {}})
		time.Sleep(2 * trustedEvery)
		if err := ask(); err != nil {
			t.Errorf("a member is not asked: %v", err)
		}
		env.Members.Set(nil)
		time.Sleep(3 * time.Minute) // libp2p asks one peer every two minutes
		if err := ask(); err == nil {
			t.Error("a former member was believed")
		}
		for i, n := range asked {
			if want := i == 3; (n.Load() > 0) != want {
				t.Errorf("stranger %d was asked %d times", i, n.Load())
			}
		}
	})
}

// A peer announces the relays that it holds places with also where libp2p thinks it needs none.
func TestRelaysAreAnnounced(t *testing.T) {
	var h Hints
	own := multiaddrs("/ip4/9.9.9.9/tcp/1")
	if got := h.Relayed(own); !slices.EqualFunc(got, own, multiaddr.Multiaddr.Equal) {
		t.Errorf("without relays it announces %v", got)
	}
	relays := multiaddrs("/ip4/9.9.9.8/tcp/1/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N/p2p-circuit")
	h.relayed.Store(&relays)
	for range 2 { // libp2p may have them already
		if own = h.Relayed(own); len(own) != 2 {
			t.Errorf("it announces %v", own)
		}
	}
}
