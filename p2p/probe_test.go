package p2p

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// probed makes two connected Networks with links of 20 Mbit/s and 10 ms each way, of which the
// second sends 1 MB/s at most.
func probed(t *testing.T) (a, b *Network) {
	t.Helper()
	s := sim.NewMemory(t, 0, 10*time.Millisecond)
	s.Rate = 20_000_000
	s.Add()
	s.Add()
	slow := LAN()
	slow.MaxUpload = 1_000_000
	a, b = simulated(t, s, 0, LAN()), simulated(t, s, 1, slow)
	s.Connect(0, 1)
	return a, b
}

// A probe measures both directions, the round trip and the other's clock.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := probed(t)
		b.probes.now = func() time.Time { return time.Now().Add(3 * time.Second) }
		r, err := a.Probe(t.Context(), b.ID(), 4<<20)
		if err != nil {
			t.Fatal(err)
		}
		if r.Up < 2.3e6 || r.Up > 2.7e6 || r.Down < .9e6 || r.Down > 1.1e6 {
			t.Errorf("%.0f bytes/s up where a link carries 2500000, %.0f down of at most 1000000", r.Up, r.Down)
		}
		if r.RTT < 20*time.Millisecond || r.RTT > 21*time.Millisecond ||
			(r.Offset-3*time.Second).Abs() > time.Millisecond {
			t.Errorf("round trip %v of 20ms, clock ahead by %v of 3s", r.RTT, r.Offset)
		}
		if r.Observed != a.Host().Addrs()[0].String() || r.Addr != b.Host().Addrs()[0].String() {
			t.Errorf("seen at %s, reached at %s", r.Observed, r.Addr)
		}
	})
}

// busy reads 1 MB/s, and does not run for a while when half of so many bytes are read: what came
// meanwhile is there at once.
type busy struct {
	began time.Time
	got   int
	half  int
	pause time.Duration
}

func (r *busy) Read(b []byte) (int, error) {
	before := r.got
	r.got += len(b)
	time.Sleep(time.Until(r.began.Add(time.Duration(r.got) * time.Microsecond)))
	if before < r.half && r.got >= r.half {
		time.Sleep(r.pause)
	}
	return len(b), nil
}

// A process that did not run for a while takes no link for faster than it is.
func TestAMeasuredRateIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 4 << 20
		for _, pause := range []time.Duration{0, time.Second, 2 * time.Second} {
			rate, err := drain(&busy{began: time.Now(), half: n / 2, pause: pause}, n)
			if err != nil || rate < .9e6 || rate > 1.1e6 {
				t.Errorf("%.0f bytes/s of 1000000 after a pause of %v, %v", rate, pause, err)
			}
		}
	})
}

// Who probes again and again is given no more than its share in a window, and is still told the
// time.
func TestProbesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := probed(t)
		for range probeSite / (2 * MaxProbe) {
			if r, err := a.Probe(t.Context(), b.ID(), 2*MaxProbe); err != nil || r.Up == 0 {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		if r, err := a.Probe(t.Context(), b.ID(), MaxProbe); err != nil || r.Up != 0 || r.Down != 0 || r.RTT == 0 {
			t.Errorf("after its share: %+v, %v", r, err)
		}
		if b.Traffic().Gossip.Received > probeSite+1<<20 {
			t.Errorf("%d bytes were taken", b.Traffic().Gossip.Received)
		}
		time.Sleep(probeWindow)
		if r, err := a.Probe(t.Context(), b.ID(), 1<<20); err != nil || r.Up == 0 {
			t.Errorf("in the next window: %+v, %v", r, err)
		}
	})
}

// New identities cost nothing: those at one address have its share, and those at many no more than
// all together may.
func TestProbesOfManyIdentities(t *testing.T) {
	p := &prober{}
	p.mu.used = make(map[string]int)
	ask := func(from string) int { return p.allow(peers.Subscriber(multiaddr.StringCast(from)), 1<<20) }
	sum := 0
	for i := range 256 {
		sum += ask(fmt.Sprintf("/ip6/2001:db8:0:1%02x::1/tcp/4001", i))
	}
	if sum != probeSite {
		t.Errorf("%d bytes for the identities of one subscriber, want %d", sum, probeSite)
	}
	for i := range 4 * maxProbers {
		sum += ask(fmt.Sprintf("/ip4/10.1.%d.%d/tcp/4001", i>>8, i&255))
	}
	if sum != probeAll || len(p.mu.used) > maxProbers {
		t.Errorf("%d bytes for %d addresses", sum, len(p.mu.used))
	}
}

var somewhereLocal = multiaddr.StringCast("/ip4/127.0.0.1/tcp/1")

// An answerer that wants or gives more than it was asked for is not obeyed, and one that says
// nothing ends in time.
func TestProbeOfABadPeer(t *testing.T) {
	for _, answer := range [][]byte{
		wire.AppendBytes(wire.AppendU32(wire.AppendU32(nil, 1<<30), 0), "x"),
		wire.AppendBytes(wire.AppendU32(wire.AppendU32(nil, 0), 1<<30), "x"),
		{1, 2, 3},
		nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := probed(t)
			b.Handle(ProtocolProbe, func(_ slot.PeerID, s wire.Stream) {
				if answer == nil {
					time.Sleep(2 * probeTimeout)
					return
				}
				_ = wire.WriteMessage(s, answer)
				go func() { _ = pour(s, 16<<20) }() // times, and whatever is asked for
				_, _ = io.Copy(io.Discard, s)
			})
			began := time.Now()
			if r, err := a.Probe(t.Context(), b.ID(), 1<<20); err == nil ||
				time.Since(began) > probeTimeout+time.Second {
				t.Errorf("%x: %+v after %v", answer, r, time.Since(began))
			}
			if moved := a.Traffic().Gossip; moved.Sent+moved.Received > 1<<20 {
				t.Errorf("%x: %+v moved", answer, moved)
			}
		})
	}
}

// Two peers see one socket, and over UDP though there is TCP.
func TestMapped(t *testing.T) {
	a, b := loopback(t, LAN()), loopback(t, LAN())
	seen, err := Mapped(t.Context(), slices.Concat(a.Addrs(), b.Addrs()))
	if err != nil || len(seen) != 2 || seen[0] != seen[1] || !strings.Contains(seen[0], "/quic-v1") {
		t.Errorf("%v, %v", seen, err)
	}
}

// A probe that has measured leaves its connection to the next stream: a reset would end one that
// may be warm.
func TestAProbeKeepsItsConnection(t *testing.T) {
	a, b := tcpPair(t, nil)
	for range 10 { // on a machine that is busy a stream may go over libp2p's connection
		if r, err := a.Probe(bounded(t), b.ID(), 1<<20); err != nil || r.Up == 0 || r.Down == 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		if a.outbound(t, b) > 1 {
			return
		}
	}
	t.Error("only libp2p's connection is left after each probe")
}
