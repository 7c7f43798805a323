package p2p

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Both sides of a hello learn how far the other's clock is off.
func TestAHelloTellsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		b.clocks.now = func() time.Time { return time.Now().Add(90 * time.Minute) }
		b.SetHello(func(slot.PeerID, Hello) (Hello, error) { return sampleHello(), nil })
		if _, err := a.Hello(t.Context(), b.ID(), sampleHello()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, c := range []struct {
			n, other *Network
			want     time.Duration
		}{{a, b, 90 * time.Minute}, {b, a, -90 * time.Minute}} {
			if got, ok := c.n.Clocks()[c.other.ID()]; !ok || (got-c.want).Abs() > time.Second {
				t.Errorf("the clock is off by %s, want %s (told: %v)", got, c.want, ok)
			}
		}
	})
}

// A clock that was off is read again, so that setting it right is seen; and a bootstrap node, which
// says no hello, is asked.
func TestClocksAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, time.Millisecond)
		boot := simulated(t, s, 0, LAN())
		cfg := LAN()
		addrs, err := peer.AddrInfoToP2pAddrs(host.InfoFromHost(s.Hosts[0]))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Bootstrap = []string{addrs[0].String()}
		var off atomic.Int64
		off.Store(int64(-time.Hour))
		boot.probes.now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
		n := simulated(t, s, 1, cfg)
		time.Sleep(2 * clocksEvery)
		synctest.Wait()
		if got, ok := n.Clocks()[boot.ID()]; !ok || (got+time.Hour).Abs() > time.Second {
			t.Fatalf("the bootstrap node's clock is off by %s (told: %v)", got, ok)
		}
		off.Store(0)
		time.Sleep(clockAgain + 2*clocksEvery)
		synctest.Wait()
		if got := n.Clocks()[boot.ID()]; got.Abs() > time.Second {
			t.Errorf("its clock was set right, and is still off by %s", got)
		}
	})
}
