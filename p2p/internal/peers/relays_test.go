package peers

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
)

// TestRelaySilence: a relay that leaves pings unanswered is disconnected, but not while something
// comes through it, nor one that is not in use.
func TestRelaySilence(t *testing.T) {
	for name, c := range map[string]struct{ used, relays, ends bool }{
		"silent": {true, false, true}, "it relays": {true, true, false}, "not used": {false, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, a, b := pair(t)
			a.relays.Store(&map[peer.ID]bool{b.host.ID(): true})
			conn := a.host.Network().ConnsToPeer(b.host.ID())[0]
			time.Sleep(20 * time.Second)
			b.host.SetStreamHandler(ping.ID, func(s network.Stream) { _, _ = io.Copy(io.Discard, s) })
			if !c.used {
				a.relays.Store(nil)
			}
			for range 12 {
				if c.relays {
					a.signs.Saw(b.host.ID(), false)
				}
				time.Sleep(time.Second)
			}
			if conn.IsClosed() != c.ends {
				t.Errorf("%s: it is disconnected is %v", name, conn.IsClosed())
			}
		})
	}
}
