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

// line is what a picture shows of each peer: a field of its metrics. Another field has the slot
// that the value is of.
type line struct {
	name     string // after the peer's, where there are several lines
	slot, of string
}

// graph is a picture of one or more lines of each peer.
type graph struct {
	title, x, y string
	lines       []line
}

// What the axes of some graphs show.
const (
	bySlot    = "slot"
	byTokens  = "tokens or samples"
	megabytes = "MB"
)

var lossBySlot = graph{"Loss by slot", bySlot, "nats", []line{
	{"held out", "held_out_slot", "held_out_loss"},
	{"in training", "slot", "loss"},
}}

var graphs = []graph{
	lossBySlot,
	{"Loss by what the run has trained on", byTokens, "nats", lossBySlot.lines},
	{"Speed", bySlot, "tokens or samples a second", []line{{"", "slot", "tokens_per_second"}}},
	{"Time of a slot", bySlot, "seconds", []line{
		{"from slot to slot", "slot", "seconds"},
		{"in inner steps", "slot", "training_seconds"},
		{"stood still", "slot", "stalled_seconds"},
	}},
	{"Members", bySlot, "peers", []line{{"members", "slot", "members"}, {"contributors", "slot", "contributors"}}},
	{"Bytes of a slot", bySlot, megabytes, []line{
		{"sent", "slot", "bytes_sent"},
		{"received", "slot", "bytes_received"},
	}},
	{"Length of the pseudo-gradient", bySlot, "L2 norm", []line{
		{"outcome", "slot", "norm"},
		{"own", "slot", "own_norm"},
	}},
	{"Own pseudo-gradient and the outcome", bySlot, "cosine", []line{{"", "slot", "cosine"}}},
}

// point is where a line has a value of one of some slots.
func (g graph) point(all slots, m p2pdiloco.SlotMetrics, l line) (x, y float64) {
	x, y = value(m, l.slot), value(m, l.of)
	if g.x == byTokens {
		x = all.tokens(uint64(x))
	}
	if g.y == megabytes {
		y /= 1e6
	}
	return x, y
}

// tokens is what the run had trained on by a slot, where that is known.
func (s slots) tokens(by uint64) float64 {
	if by == 0 {
		return 0
	}
	at, known := slices.BinarySearchFunc(s, by, func(m p2pdiloco.SlotMetrics, slot uint64) int {
		return cmp.Compare(m.Slot, slot)
	})
	if !known {
		return math.NaN()
	}
	return float64(s[at].RunTokens)
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
				x, y := g.point(peer.Slots, peer.Slots[i], l)
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
