package hostile

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// lie is what an owner makes of the values of a frame.
type lie func(slotNumber uint64, frame int, values []float32)

// firstLie is the slot in which owners lie first.
const firstLie = 4

// owns makes a peer an owner that lies.
func owns(p *nodetest.Peer, lie lie) {
	p.Hooks = func(h *testhooks.Hooks) {
		h.Reduced = func(slotNumber uint64, frame int, x []float32) {
			if slotNumber >= firstLie {
				lie(slotNumber, frame, x)
			}
		}
	}
}

func tenfold(_ uint64, _ int, x []float32) { scale(x, -10) }

// An owner that signs another outcome than that of the contributions is convicted by whoever checks
// a sample, before the outcome is agreed: it loses its place, and its values never reach the model.
func TestAnOwnerThatLies(t *testing.T) {
	for name, lie := range map[string]lie{
		"times -10": tenfold,
		"times -1":  func(_ uint64, _ int, x []float32) { scale(x, -1) },
		"zeros":     func(_ uint64, _ int, x []float32) { clear(x) },
		"one frame": func(_ uint64, frame int, x []float32) {
			if frame == 2 {
				scale(x, 30)
			}
		},
		"stale": stale(),
	} {
		if !testlevel.Nightly() && name != "one frame" && name != "stale" {
			continue // TestAnOwnerThatLiesInOtherModes has one that changes all frames
		}
		t.Run(name, func(t *testing.T) {
			spec := nodetest.Spec(12, 5)
			nodetest.Run(t, 10*time.Millisecond, spec, 5, func(s *nodetest.Swarm) {
				liar := s.Peers[2]
				owns(liar, lie)
				s.Start(s.Peers...)
				s.Finish(5*time.Minute, s.But(liar)...)
				checkConvicted(t, s, name != "one frame", liar)
			})
		})
	}
}

// stale gives the outcome of the slot in which the same frame was reduced last.
func stale() lie {
	kept := map[int][]float32{}
	return func(slotNumber uint64, frame int, x []float32) {
		before := kept[frame]
		kept[frame] = append([]float32(nil), x...)
		if copy(x, before) == 0 {
			scale(x, -1)
		}
	}
}

// checkConvicted says whether each honest peer has evicted the liars alone, and, if so they must,
// has evicted them.
func checkConvicted(t *testing.T, s *nodetest.Swarm, must bool, liars ...*nodetest.Peer) {
	t.Helper()
	checkHonest(t, s, liars...)
	for _, p := range s.But(liars...) {
		got := p.Events("peer.evicted")
		if must && len(got) == 0 {
			t.Errorf("host %d has not heard of the proof", p.Host)
		}
		for _, e := range got {
			if honest(s, e.Fields["about"].(p2pdiloco.PeerID), liars) {
				t.Errorf("host %d evicted an honest peer: %v", p.Host, e.Fields)
			}
			// operators are told how it can come back
			if !strings.Contains(e.Fields["detail"].(string), "as a new peer only") {
				t.Errorf("host %d does not say how it can take part again: %v", p.Host, e.Fields)
			}
		}
	}
}

// The same holds in other modes.
func TestAnOwnerThatLiesInOtherModes(t *testing.T) {
	inOtherModes(t, func(s *nodetest.Swarm) {
		liar := s.Peers[2]
		owns(liar, tenfold)
		s.Start(s.Peers...)
		s.Finish(5*time.Minute, s.But(liar)...)
		for _, p := range s.But(liar) {
			if len(p.Events("peer.evicted")) != 1 {
				t.Errorf("host %d evicted %v", p.Host, p.Events("peer.evicted"))
			}
		}
	})
}

// inOtherModes plays with five peers where inner steps go on during the reduction, and where parts
// of the model take turns.
func inOtherModes(t *testing.T, play func(s *nodetest.Swarm)) {
	for _, mode := range []string{p2pdiloco.ModeAsync, p2pdiloco.ModeStreaming} {
		t.Run(mode, func(t *testing.T) {
			spec := nodetest.Spec(8, 5)
			spec.Mode = mode
			if mode == p2pdiloco.ModeStreaming {
				spec.Rounds, spec.Fragments = 4, 2
			}
			nodetest.Run(t, 10*time.Millisecond, spec, 5, func(s *nodetest.Swarm) {
				for _, p := range s.Peers {
					p.Trainer = &layered{nodetest.Bowl{Target: float32(p.Host), Pace: 10 * time.Millisecond}}
				}
				play(s)
			})
		})
	}
}

// layered is a bowl whose model has layers, with a frame of each for every peer of five.
type layered struct{ nodetest.Bowl }

func (*layered) Layout() p2pdiloco.Layout {
	return p2pdiloco.Layout{
		{Name: "layers.0.w", Shape: []uint64{5 * bowlFrame}}, {Name: "layers.1.w", Shape: []uint64{5 * bowlFrame}},
	}
}

// An owner lies while as many electors as may lie pass everything without a look: it and its
// accomplice are the two of seven.
func TestAnOwnerThatLiesWithAccomplices(t *testing.T) {
	spec := nodetest.Spec(8, 7)
	nodetest.Run(t, 10*time.Millisecond, spec, 7, func(s *nodetest.Swarm) {
		for _, p := range s.Peers {
			p.Trainer.(*nodetest.Bowl).Size = 7 * bowlFrame // each owns a frame
		}
		liar, accomplice := s.Peers[2], s.Peers[5]
		owns(liar, tenfold)
		blind := func(h *testhooks.Hooks) { h.Passes = func(uint64) bool { return true } }
		hooks := liar.Hooks
		liar.Hooks = func(h *testhooks.Hooks) {
			hooks(h)
			blind(h)
		}
		accomplice.Hooks = blind
		s.Start(s.Peers...)
		s.Finish(5*time.Minute, s.But(liar)...)
		checkConvicted(t, s, true, liar)
	})
}

func scale(x []float32, by float32) {
	for i := range x {
		x[i] *= by
	}
}

// With trust crash nobody looks whether an owner's values are right. But what has no values would
// end the run for good: another member reduces that part, and the slots go on.
func TestAnOwnerOfNoValuesStopsNothing(t *testing.T) {
	spec := nodetest.Spec(8, 4)
	spec.Trust, spec.Codec = p2pdiloco.TrustCrash, "f32"
	nodetest.Run(t, 10*time.Millisecond, spec, 4, func(s *nodetest.Swarm) {
		liar := s.Peers[2]
		owns(liar, func(_ uint64, _ int, x []float32) { x[len(x)-1] = float32(math.NaN()) })
		s.Start(s.Peers...)
		s.Finish(5*time.Minute, s.But(liar)...)
		checkHonest(t, s, liar)
		for _, p := range s.But(liar) {
			if slices.ContainsFunc(p.Trainer.(*nodetest.Bowl).X, func(v float32) bool { return v != v }) {
				t.Errorf("host %d: the model is not finite", p.Host)
			}
		}
	})
}
