package hostile

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// Three strangers that send ten times the opposite, and an honest newcomer, join three founders. No
// slot takes more of the strangers than their share. They earn nothing by it, and the newcomer
// earns its vote beside them.
func TestStrangersStayFew(t *testing.T) {
	spec := nodetest.Spec(20, 3)
	nodetest.Run(t, 10*time.Millisecond, spec, 3, func(s *nodetest.Swarm) {
		founders := append([]*nodetest.Peer(nil), s.Peers...)
		honest := s.Add()
		var strangers []*nodetest.Peer
		for range 3 {
			p := s.Add()
			spoils(func(_ uint64, x []float32) { scale(x, -10) })(s, p)
			p.Trainer.(*spoiler).always = true
			strangers = append(strangers, p)
		}
		taken := map[uint64]int{}
		founders[0].OnEvent = func(e p2pdiloco.Event) {
			if e.Name != "slot.applied" {
				return
			}
			r, _ := founders[0].Ledger().Record(e.Fields["height"].(uint64))
			for _, o := range r.Record.Contributions {
				for _, p := range strangers {
					if o.Peer == s.ID(p) {
						taken[r.Record.Slot]++
					}
				}
			}
		}
		s.Start(founders...)
		s.Reach(1, founders...)
		s.Start(append(strangers, honest)...)
		s.Reach(18, founders...)
		for _, p := range strangers {
			if m := s.Member(founders[0], p); m.Seat != 0 || m.Credit != 0 {
				t.Errorf("stranger %d has seat %d and credit %d", p.Host, m.Seat, m.Credit)
			}
		}
		if m := s.Member(founders[0], honest); m.Seat == 0 {
			t.Errorf("the honest newcomer has no vote: %+v", m)
		}
		s.Finish(5*time.Minute, append(founders, honest)...)
		most, slots := 0, 0
		for _, n := range taken {
			most, slots = max(most, n), slots+1
		}
		if most > 2 || slots < 10 { // two newcomers beside four with a vote
			t.Errorf("strangers in a slot: %v", taken)
		}
	})
}
