package sim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rtt pings host j from host i, giving up after 5 s.
func rtt(s *Net, i, j int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	res, ok := <-ping.Ping(ctx, s.Hosts[i], s.Hosts[j].ID())
	if !ok {
		return 0, context.Cause(ctx)
	}
	return res.RTT, res.Error
}

// each runs f over both kinds of network.
func each(t *testing.T, f func(t *testing.T, open func(testing.TB, int, time.Duration) *Net)) {
	t.Helper()
	t.Run("QUIC", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, New) }) })
	t.Run("memory", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, NewMemory) }) })
}

func TestLatency(t *testing.T) {
	each(t, func(t *testing.T, open func(testing.TB, int, time.Duration) *Net) {
		s := open(t, 2, 50*time.Millisecond)
		s.Connect(0, 1)
		got, err := rtt(s, 0, 1)
		if err != nil || got < 100*time.Millisecond || got > 120*time.Millisecond {
			t.Errorf("round trip %v, %v; want 100 ms of simulated time", got, err)
		}
	})
}

func TestCutAndHeal(t *testing.T) {
	each(t, func(t *testing.T, open func(testing.TB, int, time.Duration) *Net) {
		s := open(t, 3, 10*time.Millisecond)
		s.ConnectAll()
		s.Cut(0, 1)
		if _, err := rtt(s, 0, 1); err == nil {
			t.Error("a ping went through a cut link")
		}
		if _, err := rtt(s, 0, 2); err != nil {
			t.Errorf("the cut hit another link: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if c := s.Hosts[0].Network().Connectedness(s.Hosts[1].ID()); c == network.Connected {
			t.Error("the connection outlived a cut of two minutes")
		}
		s.Heal(0, 1)
		s.Connect(0, 1)
		if _, err := rtt(s, 0, 1); err != nil {
			t.Errorf("after healing: %v", err)
		}
	})
}

func TestIsolateAndAdd(t *testing.T) {
	each(t, func(t *testing.T, open func(testing.TB, int, time.Duration) *Net) {
		s := open(t, 2, time.Millisecond)
		s.Connect(0, 1)
		s.Isolate(1)
		if _, err := rtt(s, 0, 1); err == nil {
			t.Error("a ping reached an isolated host")
		}
		i := s.Add()
		s.Connect(i, 0)
		s.Rejoin(1)
		s.Connect(i, 1)
		s.Close(i)
		time.Sleep(time.Second)
		if n := len(s.Hosts[0].Network().ConnsToPeer(s.Hosts[i].ID())); n != 0 {
			t.Errorf("%d connections to a closed host", n)
		}
	})
}

func TestFreezeAndSlow(t *testing.T) {
	each(t, func(t *testing.T, open func(testing.TB, int, time.Duration) *Net) {
		s := open(t, 2, time.Millisecond)
		s.Connect(0, 1)
		s.Freeze(1)
		if _, err := rtt(s, 0, 1); err == nil {
			t.Error("a ping reached a frozen host")
		}
		i := s.Add()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if s.Hosts[i].Connect(ctx, s.Info(1)) == nil {
			t.Error("a host that came later reached a frozen one")
		}
		s.Thaw(1)
		s.Slow(1, 100*time.Millisecond)
		if got, err := rtt(s, 0, 1); err != nil || got < 200*time.Millisecond {
			t.Errorf("round trip to a slow host %v, %v", got, err)
		}
		s.Slow(1, 0)
		if got, err := rtt(s, 0, 1); err != nil || got > 20*time.Millisecond {
			t.Errorf("round trip to a host that is slow no more: %v, %v", got, err)
		}
	})
}
