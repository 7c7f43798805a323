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
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// slotTime is how long a slot takes on average over some, in a run of five over the internet, once
// the pairs that are cut after its first slot are known to be. Each contribution of them counts in
// each segment.
func slotTime(t *testing.T, cuts int) (took time.Duration) {
	const first, slots = 9, 8
	nodetest.RunNow(t, 100*time.Millisecond, nodetest.Spec(first+slots+4, 5), 5, func(s *nodetest.Swarm) {
		s.Pace(125 * time.Millisecond)
		for _, p := range s.Peers {
			p.WAN = true
			p.Config = func(c *p2pdiloco.Config) { c.Preset = p2pdiloco.PresetWAN }
		}
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		for i := range cuts {
			s.Net.Cut(s.Peers[2*i].Host, s.Peers[2*i+1].Host)
		}
		s.Until(5*time.Minute, "at the first slot that counts", func() bool { return s.Peers[4].Applied() >= first })
		began, seen := time.Now(), uint64(0)
		s.Until(5*time.Minute, "at the last one", func() bool {
			tip := s.Peers[4].Ledger().View().Tip
			if tip.Kind == slot.Step && tip.Slot > first && tip.Slot > seen {
				seen = tip.Slot
				for _, seg := range tip.Segments {
					if n := seg.Contributors.Count(); n != len(s.Peers) {
						t.Errorf("%d pairs cut, slot %d: %d contributions in %v", cuts, seen, n, seg.Range)
					}
				}
			}
			return s.Peers[4].Applied() >= first+slots
		})
		took = time.Since(began) / slots
		if seen != first+slots {
			t.Errorf("looked at no slot after %d", seen)
		}
	})
	return took
}

// Pairs that cannot connect cost a slot little: another member forwards what they exchange, and
// nothing waits for a dial. Before, one such pair took 9 s a slot and two took 14.
func TestCutPairsCostLittle(t *testing.T) {
	t.Parallel()
	undisturbed := slotTime(t, 0)
	for _, cuts := range []int{1, 2} {
		took := slotTime(t, cuts)
		t.Logf("a slot takes %v, with %d pairs cut %v: %.2f times", undisturbed, cuts, took,
			took.Seconds()/undisturbed.Seconds())
		if took > undisturbed*13/10 {
			t.Errorf("a slot takes %v with %d pairs cut, undisturbed %v", took, cuts, undisturbed)
		}
	}
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
			for _, name := range []string{"peer.accused", "peer.evicted", "state.diverged"} {
				if p.Had(name) {
					t.Errorf("host %d: %s: %v", p.Host, name, p.Events(name))
				}
			}
		}
	})
}
