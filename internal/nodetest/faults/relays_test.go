package faults

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
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
	first, slots := uint64(6), uint64(5)
	nodetest.RunNow(t, nodetest.Spec(first+slots+4, 5), 0, func(s *swarm) {
		s.Net.Rate, s.Net.Latency = c.rate, 100*time.Millisecond
		for range 5 {
			p := s.Add()
			p.Preset = p2pdiloco.PresetWAN
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
		if c.cut > 0 {
			relayed(s, s.Peers[0], s.Peers[1])
		}
	})
	return took
}

// Pairs that cannot connect cost a slot little, at most .3 of an undisturbed one: another member
// relays what they exchange, and nothing waits for a dial. So it is where links are so slow that
// sending takes most of the slot.
func TestCutPairsCostLittle(t *testing.T) {
	t.Parallel()
	cases := [][]pairs{{{}, {cut: 2}}, {{}, {cut: 1}}, {
		{rate: slowLink}, {cut: 1, rate: slowLink}, {cut: 2, rate: slowLink},
	}}
	for _, c := range cases[:testutil.Choose(1, 1, len(cases))] {
		usual := c[0].slotTime(t)
		for _, disturbed := range c[1:] {
			took := disturbed.slotTime(t)
			t.Logf("a slot takes %v, with %+v %v: %.2f times", usual, disturbed, took, took.Seconds()/usual.Seconds())
			if took > usual*13/10 {
				t.Errorf("a slot takes %v with %+v, undisturbed %v", took, disturbed, usual)
			}
		}
	}
}

// Of five, two cannot connect, and the one that relays for them dies in the middle of a slot. Slots
// go on, and from the second one on the others all contribute.
func TestTheRelayOfAPairDies(t *testing.T) {
	nodetest.Once(t, 21, 5, func(s *swarm) {
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
		a, b := s.Peers[0], s.Peers[1]
		s.Net.Cut(a.Host, b.Host)
		<-planned
		dead := relayOf(s, a, b)
		if dead == nil {
			t.Fatal("nobody relays for the pair")
		}
		s.Kill(dead)
		living := s.But(dead)
		at := tipSlot(a)
		contribute(s, at+2, 20, len(living), living...)
		s.Finish(5*time.Minute, living...)
	})
}

// relayOf is the peer through which one peer reaches another, nil if there is none.
func relayOf(s *swarm, a, b *peer) *peer {
	for _, path := range a.Network.Paths() {
		for _, p := range s.Peers {
			if path.Peer == s.ID(b) && path.Relay == s.ID(p) {
				return p
			}
		}
	}
	return nil
}

func tipSlot(p *peer) uint64 { return p.Ledger().View().Tip.Slot }

// contribute checks that in slots first to last, each of which is decided in its turn, so many
// contribute.
func contribute(s *swarm, first, last uint64, want int, peers ...*peer) {
	s.T.Helper()
	for at := first; at <= last; at++ {
		s.Reach(at, peers...)
		if all := s.Contributors(at); len(all) != want {
			s.T.Errorf("slot %d has %d contributors of %d", at, len(all), want)
		}
	}
}

// Two pairs are cut at once, in the middle of a slot, or all but one member cannot reach each
// other: each slot is decided, and once ways through others are found, all contribute. Mostly
// the second slot has all; on a busy machine some of the next five may lack one.
func TestPairsCutInMidSlot(t *testing.T) {
	t.Parallel()
	cuts := [][][2]int{
		{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}, {{0, 1}, {2, 3}}, {{0, 1}, {0, 2}},
	}
	for _, cut := range cuts[:testutil.Choose(1, 1, 3)] {
		nodetest.RunNow(t, nodetest.Spec(26, 5), 5, func(s *swarm) {
			s.Pace(20 * time.Millisecond)
			s.Start(s.Peers...)
			s.Reach(4, s.Peers...)
			for _, pair := range cut {
				s.Net.Cut(s.Peers[pair[0]].Host, s.Peers[pair[1]].Host)
			}
			contribute(s, tipSlot(s.Peers[4])+12, 24, len(s.Peers), s.Peers...)
			s.Finish(5*time.Minute, s.Peers...)
		})
	}
}
