package partitions

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// pairs is a run of five over the internet (100 ms), some pairs of which have trouble.
type pairs struct {
	cut int // pairs that cannot connect after the first slot
	// bits a second of each link, with a vector that takes seconds on it; 0: links that are fast
	rate int
}

// slowVector is the elements of a vector that takes seconds on a link of slowLink.
const (
	slowVector = 200_000
	slowLink   = 4_000_000
)

// slotTime is how long a slot takes on average over some, once the pairs that have trouble are
// known to have it. Each contribution counts in each segment.
func (c pairs) slotTime(t *testing.T) (took time.Duration) {
	first, slots := uint64(9), uint64(8)
	nodetest.RunNow(t, 100*time.Millisecond, nodetest.Spec(first+slots+4, 5), 0, func(s *nodetest.Swarm) {
		s.Net.Rate = c.rate
		for range 5 {
			p := s.Add()
			p.WAN = true
			p.Config = func(c *p2pdiloco.Config) { c.Preset = p2pdiloco.PresetWAN }
			bowl := p.Trainer.(*nodetest.Bowl)
			if bowl.Pace = 125 * time.Millisecond; c.rate > 0 {
				bowl.Size, bowl.Noisy = slowVector, true
			}
		}
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		for i := range c.cut {
			s.Net.Cut(s.Peers[2*i].Host, s.Peers[2*i+1].Host)
		}
		s.Until(10*time.Minute, "at the first slot that counts", func() bool { return s.Peers[4].Applied() >= first })
		began, seen := time.Now(), uint64(0)
		s.Until(10*time.Minute, "at the last one", func() bool {
			tip := s.Peers[4].Ledger().View().Tip
			if tip.Kind == slot.Step && tip.Slot > first && tip.Slot > seen {
				seen = tip.Slot
				for _, seg := range tip.Segments {
					if n := seg.Contributors.Count(); n != len(s.Peers) {
						t.Errorf("%+v, slot %d: %d contributions in %v", c, seen, n, seg.Range)
					}
				}
			}
			return s.Peers[4].Applied() >= first+slots
		})
		took = time.Since(began) / time.Duration(slots)
		if seen != first+slots {
			t.Errorf("looked at no slot after %d", seen)
		}
		for _, m := range s.Peers[0].Node.Load().Status().Members {
			apart := c.cut > 0 && m.Peer == s.ID(s.Peers[1])
			if apart != (m.Through != "") || apart && m.Path != nil {
				t.Errorf("%+v: status says of %s: through %q, by %v", c, m.Peer.Short(), m.Through, m.Path)
			}
		}
	})
	return took
}

// costLittle holds slots with pairs in trouble against 1.3 times slots without.
func costLittle(t *testing.T, undisturbed pairs, cases ...pairs) {
	t.Helper()
	usual := undisturbed.slotTime(t)
	for _, c := range cases {
		took := c.slotTime(t)
		t.Logf("a slot takes %v, with %+v %v: %.2f times", usual, c, took, took.Seconds()/usual.Seconds())
		if took > usual*13/10 {
			t.Errorf("a slot takes %v with %+v, undisturbed %v", took, c, usual)
		}
	}
}

// Pairs that cannot connect cost a slot little: another member forwards what they exchange, and
// nothing waits for a dial.
func TestCutPairsCostLittle(t *testing.T) {
	t.Parallel()
	cases := []pairs{{cut: 2}}
	if testlevel.Nightly() {
		cases = append(cases, pairs{cut: 1})
	}
	costLittle(t, pairs{}, cases...)
}

// So it is where links are so slow that sending takes most of the slot.
func TestCutPairsOnSlowLinksCostLittle(t *testing.T) {
	if !testlevel.Nightly() {
		t.Skip("for .ci/nightly: pairs on fast links are tried here")
	}
	t.Parallel()
	costLittle(t, pairs{rate: slowLink}, pairs{cut: 1, rate: slowLink}, pairs{cut: 2, rate: slowLink})
}

// Of four, two cannot connect, and one of the others dies in the middle of a slot. One of them is
// who forwards for the pair: whichever it is, the remaining one does from then on.
func TestTheForwarderDies(t *testing.T) {
	t.Parallel()
	for _, victim := range []int{2, 3} {
		nodetest.RunNow(t, 10*time.Millisecond, nodetest.Spec(21, 4), 4, func(s *nodetest.Swarm) {
			s.Pace(20 * time.Millisecond)
			planned := make(chan struct{})
			var once atomic.Bool
			s.Peers[0].OnEvent = func(e p2pdiloco.Event) {
				if e.Name == "slot.planned" && e.Fields["slot"] == uint64(14) && once.CompareAndSwap(false, true) {
					close(planned)
				}
			}
			s.Start(s.Peers...)
			s.Reach(1, s.Peers...)
			s.Net.Cut(s.Peers[0].Host, s.Peers[1].Host)
			<-planned
			dead := s.Peers[victim]
			s.Kill(dead)
			living := s.But(dead)
			s.Reach(20, living...)
			all := s.Contributors(20)
			s.Finish(5*time.Minute, living...)
			if len(all) != len(living) {
				t.Errorf("without host %d slot 20 has %d contributors of %d", dead.Host, len(all), len(living))
			}
		})
	}
}

// flip forwards as a member does, but changes a bit now and then.
func flip(p *nodetest.Peer, flipped *atomic.Int64) {
	network := p.Network
	network.Handle(p2p.ProtocolForward, func(from p2pdiloco.PeerID, in wire.Stream) {
		defer in.Reset() //nolint:errcheck // nobody is left to tell
		b, err := wire.ReadMessage(in, 100)
		if err != nil || b[0] != 1 {
			return
		}
		target := p2pdiloco.PeerID(wire.NewReader(b[1:]).Bytes(100))
		out, err := network.OpenBulk(context.Background(), target, p2p.ProtocolForward)
		if err != nil {
			return
		}
		defer out.Reset() //nolint:errcheck // nobody is left to tell
		if wire.WriteMessage(out, wire.AppendBytes([]byte{2}, from)) != nil {
			return
		}
		go func() {
			_, _ = io.Copy(in, out)
			_ = in.CloseWrite()
		}()
		for room, passed := make([]byte, 4096), 0; ; {
			n, err := in.Read(room)
			if passed += n; passed > 2500 && n > 0 { // behind the handshake
				room[n-1] ^= 1
				flipped.Add(1)
			}
			if _, werr := out.Write(room[:n]); werr != nil || err != nil {
				_ = out.CloseWrite()
				return
			}
		}
	})
}

// All who could forward change what they carry. Nobody reduces any of it, and nobody honest is
// blamed for it: the run ends with equal states.
func TestForwardersThatChangeBytes(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(12, 4), 4, func(s *nodetest.Swarm) {
		var flipped atomic.Int64
		s.Start(s.Peers...)
		for _, p := range s.Peers[2:] {
			flip(p, &flipped)
		}
		s.Reach(1, s.Peers...)
		s.Net.Cut(s.Peers[0].Host, s.Peers[1].Host)
		s.Finish(10*time.Minute, s.Peers...)
		if flipped.Load() == 0 {
			t.Error("nothing was changed: nothing was tested")
		}
		t.Logf("%d changes", flipped.Load())
		for _, p := range s.Peers {
			for _, name := range []string{"peer.evicted", "state.diverged"} {
				if p.Had(name) {
					t.Errorf("host %d: %s: %v", p.Host, name, p.Events(name))
				}
			}
		}
	})
}
