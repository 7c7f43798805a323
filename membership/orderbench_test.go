package membership

import (
	"fmt"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// BenchmarkOrder is what one more member's order costs where half of so many members have given it,
// and an eighth have given as many made-up ones as they may.
func BenchmarkOrder(b *testing.B) {
	for _, n := range []int{64, 512, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := machineOn(Config{
				Self: "p0000", Incarnation: 1, Rules: labRules(), Timing: labTiming,
				Plan: labPlanner, Verify: labVerify,
			}, wire.Saved{Incarnation: 1}, nil)
			var ms []slot.Member
			for i := range n {
				id := slot.PeerID(fmt.Sprintf("p%04d", i))
				ms = append(ms, slot.Member{Peer: id, Incarnation: 1, Since: 1, Seat: 1})
			}
			m.chain.Push(wire.Commit{Record: slot.Record{
				Run: m.cfg.Rules.Run, Height: 1, Kind: slot.Fork,
				Prev: m.chain.TipHash(), Members: ms,
			}})
			m.presence.meetMembers(nil)
			m.openNext()
			say := func(by int, about string, from uint64) {
				o := slot.Motion{Action: slot.Remove, Peer: slot.PeerID(about), From: from}
				if err := m.Step(0, wire.Message{
					From: ms[by].Peer, Incarnation: 1, Body: wire.Motion{Motion: o},
					Sig: make([]byte, 64),
				}); err != nil {
					b.Fatal(err)
				}
				m.Ready()
			}
			for i := range n / 2 {
				say(i, "victim", 0)
			}
			for i := range n / 8 {
				for k := range slot.MaxDecisions {
					say(n/2+i, fmt.Sprint(i, k), 0)
				}
			}
			b.ResetTimer()
			for i := range b.N {
				say(1, "victim", uint64(i%int(slot.MotionSpan)))
				if i%int(slot.MotionSpan) == int(slot.MotionSpan)-1 {
					clear(m.motions.held[memberKey{ms[1].Peer, 1}])
				}
			}
		})
	}
}
