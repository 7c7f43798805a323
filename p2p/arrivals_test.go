package p2p

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
)

// TestADialEndsWhenThePeerComesByItself: here at an address where nobody answers.
func TestADialEndsWhenThePeerComesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b := pair(t)
		for _, c := range a.env.Host.Network().Conns() {
			_ = c.Close()
		}
		synctest.Wait()
		a.env.Host.Peerstore().ClearAddrs(peer.ID(b.ID()))
		a.env.Host.Peerstore().AddAddr(peer.ID(b.ID()), multiaddr.StringCast("/ip4/1.2.3.4/udp/9/quic-v1"), time.Hour)
		b.Handle(protocolEcho, echo)
		began, took := time.Now(), make(chan time.Duration)
		go func() {
			if got, err := roundTrip(t.Context(), a, b.ID(), protocolEcho, []byte("hello")); err != nil ||
				string(got) != "hello" {
				t.Errorf("%q, %v", got, err)
			}
			took <- time.Since(began)
		}()
		time.Sleep(time.Second)
		s.Connect(1, 0)
		if d := <-took; d > 2*time.Second {
			t.Errorf("the stream waited %v for the dial", d)
		}
	})
}
