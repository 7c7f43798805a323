package hostile

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/conduct"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// An owner that publishes a false figure is convicted by an elector whose whole frame shows that,
// although its outcome is right.
func TestAnOwnerThatPublishesFalseFigures(t *testing.T) {
	each := func(change func(*slot.Figure)) func(slot.FigureRow) {
		return func(row slot.FigureRow) {
			for i := range row.Of {
				change(&row.Of[i])
			}
		}
	}
	for name, lie := range map[string]func(slot.FigureRow){
		"norm":    each(func(f *slot.Figure) { f.Norm *= 2 }),
		"product": each(func(f *slot.Figure) { f.Along = -f.Along - 1 }),
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(14, 5), 5, func(s *nodetest.Swarm) {
				liar := s.Peers[2]
				liar.Hooks = func(h *testhooks.Hooks) {
					h.Figured = func(slotNumber uint64, _ int, row slot.FigureRow) {
						if slotNumber >= firstLie {
							lie(row)
						}
					}
				}
				s.Start(s.Peers...)
				s.Finish(5*time.Minute, s.But(liar)...)
				checkConvicted(t, s, true, liar)
			})
		})
	}
}

// Contributors that stand out are named to each peer, in words, and to themselves where they may
// not know it. Nobody else is.
func TestContributorsThatStandOut(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func([]float32)
		finding string
		alarm   bool
	}{
		"flip":  {func(x []float32) { scale(x, -1) }, "opposite", true},
		"zeros": {func(x []float32) { clear(x) }, "zeros", false},
		"scale": {func(x []float32) { scale(x, 1e6) }, "too_large", false},
	} {
		t.Run(name, func(t *testing.T) {
			spec := nodetest.Spec(firstLie+10, 5)
			// the run is far from its end
			spec.InnerSteps, spec.OuterLR, spec.Momentum = 2, "0.1", "0"
			nodetest.Run(t, 10*time.Millisecond, spec, 5, func(s *nodetest.Swarm) {
				bad, compared := s.Peers[2], atomic.Int32{}
				s.Peers[0].Hooks = func(h *testhooks.Hooks) {
					h.Figured = func(slotNumber uint64, _ int, row slot.FigureRow) {
						if row.Of[0].Measured() {
							compared.Store(int32(slotNumber))
						}
					}
				}
				for _, p := range s.Peers {
					p.Trainer = &spoiler{
						Bowl: nodetest.Bowl{Target: 100 + float32(p.Host), Pace: 10 * time.Millisecond},
						spoil: func(_ uint64, x []float32) {
							if p == bad {
								c.spoil(x)
							}
						},
					}
				}
				s.Start(s.Peers...)
				s.Finish(5*time.Minute, s.Peers...)
				for _, p := range s.Peers {
					checkNamed(t, s, p, bad, c.finding)
					checkFigures(t, p)
				}
				if compared.Load() < firstLie {
					t.Error("nothing is compared with the outcome before")
				}
				if got := len(bad.Events("trainer.alarm")); (got == 1) != c.alarm {
					t.Errorf("the bad peer has raised %d alarms about itself", got)
				}
			})
		})
	}
}

// checkNamed says whether a peer has named the bad one, once, and nobody else.
func checkNamed(t *testing.T, s *nodetest.Swarm, p, bad *nodetest.Peer, finding string) {
	t.Helper()
	named := 0
	for _, e := range p.Events("peer.stands_out") {
		about := e.Fields["about"].(p2pdiloco.PeerID)
		switch {
		case about != s.ID(bad):
			t.Errorf("host %d names an honest peer: %v", p.Host, e.Fields)
		case e.Fields["finding"] == finding:
			named++
		}
	}
	if named != 1 {
		t.Errorf("host %d has named the bad peer %d times", p.Host, named)
	}
	if p != bad && len(p.Events("trainer.alarm")) > 0 {
		t.Errorf("host %d doubts itself", p.Host)
	}
}

// checkFigures says whether a peer has told the figures of all contributors, of each slot.
func checkFigures(t *testing.T, p *nodetest.Peer) {
	t.Helper()
	told := map[uint64]int{}
	for _, e := range p.Events("slot.figures") {
		told[e.Fields["slot"].(uint64)] = len(e.Fields["contributors"].([]conduct.Figures))
	}
	for _, e := range p.Events("slot.stats") {
		if n := e.Fields["slot"].(uint64); told[n] != e.Fields["contributors"] {
			t.Errorf("host %d has told the figures of %d contributors of %v to slot %d",
				p.Host, told[n], e.Fields["contributors"], n)
		}
	}
}
