package document

import (
	"cmp"
	"io"
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco"
)

// mostPoints of a series are drawn: a picture has no more pixels.
const mostPoints = 1000

// line is what a picture shows of each peer.
type line struct {
	name string // after the peer's, where there are several lines
	x    func(all []p2pdiloco.SlotMetrics, m p2pdiloco.SlotMetrics) float64
	y    func(m p2pdiloco.SlotMetrics) float64
}

// graph is a picture of one or more lines of each peer.
type graph struct {
	title, x, y string
	lines       []line
}

func slotOf(_ []p2pdiloco.SlotMetrics, m p2pdiloco.SlotMetrics) float64 { return float64(m.Slot) }
func tokensOf(_ []p2pdiloco.SlotMetrics, m p2pdiloco.SlotMetrics) float64 {
	return float64(m.RunTokens)
}

// heldOutSlot is the slot of the anchor that the held-out loss is of.
func heldOutSlot(_ []p2pdiloco.SlotMetrics, m p2pdiloco.SlotMetrics) float64 {
	return float64(m.HeldOutSlot)
}

// heldOutTokens is what the run had trained on by that slot, where that is known.
func heldOutTokens(all []p2pdiloco.SlotMetrics, m p2pdiloco.SlotMetrics) float64 {
	if m.HeldOutSlot == 0 {
		return 0
	}
	at, known := slices.BinarySearchFunc(all, m.HeldOutSlot, func(m p2pdiloco.SlotMetrics, slot uint64) int {
		return cmp.Compare(m.Slot, slot)
	})
	if !known {
		return math.NaN()
	}
	return float64(all[at].RunTokens)
}

// known is NaN, which makes a gap, where nothing is known.
func known(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func trained(m p2pdiloco.SlotMetrics) float64 { return known(m.Loss) }

// heldOut is the held-out loss where it is new.
func heldOut(m p2pdiloco.SlotMetrics) float64 { return known(m.HeldOut) }

var lossBySlot = graph{"Loss by slot", "slot", "nats", []line{
	{"held out", heldOutSlot, heldOut},
	{"in training", slotOf, trained},
}}

var graphs = []graph{
	lossBySlot,
	{"Loss by what the run has trained on", "tokens or samples", "nats", []line{
		{"held out", heldOutTokens, heldOut}, {"in training", tokensOf, trained},
	}},
	{"Speed", "slot", "tokens or samples a second", []line{
		{"", slotOf, func(m p2pdiloco.SlotMetrics) float64 { return known(m.TokensPerSecond) }},
	}},
	{"Time of a slot", "slot", "seconds", []line{
		{"from slot to slot", slotOf, func(m p2pdiloco.SlotMetrics) float64 { return m.Seconds }},
		{"in inner steps", slotOf, func(m p2pdiloco.SlotMetrics) float64 { return m.TrainingSeconds }},
		{"stood still", slotOf, func(m p2pdiloco.SlotMetrics) float64 { return m.StalledSeconds }},
	}},
	{"Members", "slot", "peers", []line{
		{"members", slotOf, func(m p2pdiloco.SlotMetrics) float64 { return float64(m.Members) }},
		{"contributors", slotOf, func(m p2pdiloco.SlotMetrics) float64 { return float64(m.Contributors) }},
	}},
	{"Bytes of a slot", "slot", "MB", []line{
		{"sent", slotOf, func(m p2pdiloco.SlotMetrics) float64 { return float64(m.BytesSent) / 1e6 }},
		{"received", slotOf, func(m p2pdiloco.SlotMetrics) float64 { return float64(m.BytesReceived) / 1e6 }},
	}},
	{"Length of the pseudo-gradient", "slot", "L2 norm", []line{
		{"outcome", slotOf, func(m p2pdiloco.SlotMetrics) float64 { return m.Norm }},
		{"own", slotOf, func(m p2pdiloco.SlotMetrics) float64 { return known(m.OwnNorm) }},
	}},
	{"Own pseudo-gradient and the outcome", "slot", "cosine", []line{
		{"", slotOf, func(m p2pdiloco.SlotMetrics) float64 { return known(m.Cosine) }},
	}},
}

// draw draws the graph, with each n-th slot where there are many. ok is false where nothing is
// known of it.
func (g graph) draw(peers []Peer) (picture []byte, ok bool) {
	p := Plot{Title: g.title, X: g.x, Y: g.y}
	for _, peer := range peers {
		step := len(peer.Slots)/mostPoints + 1
		for _, l := range g.lines {
			s := Series{Name: l.name}
			if len(peers) > 1 || l.name == "" {
				s.Name = peer.Name + " " + l.name
			}
			seen := math.NaN()
			for i := len(peer.Slots) % step; i < len(peer.Slots); i += step {
				x, y := l.x(peer.Slots, peer.Slots[i]), l.y(peer.Slots[i])
				if x != seen { // a loss that was told before
					s.X, s.Y = append(s.X, x), append(s.Y, y)
				}
				seen, ok = x, ok || !math.IsNaN(y)
			}
			p.Series = append(p.Series, s)
		}
	}
	return p.Draw(), ok
}

func picture(w io.Writer, peers []Peer) error {
	b, _ := lossBySlot.draw(peers)
	_, err := w.Write(b)
	return err
}
