package chaos

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
)

// Fault is one entry of a schedule. Times are those with the preset lan.
type Fault struct {
	Slot    uint64  `json:"slot"` // it begins when so many slots are committed
	Kind    Kind    `json:"kind"`
	Pick    uint64  `json:"pick"`           // draws the victim among those that may be hurt then
	Slots   uint64  `json:"slots"`          // it lasts until so many more slots are committed
	Seconds float64 `json:"seconds"`        // and at least so long
	Side    int     `json:"side,omitempty"` // of partition: peers on the smaller side
	Fork    bool    `json:"fork,omitempty"` // of partition: it lasts for so long after a fork
	// of failpoint: where the victim fails, and whether it sleeps there for its seconds, or crashes
	Place failpoint.Place `json:"place,omitempty"`
	Nap   bool            `json:"nap,omitempty"`
	After float64         `json:"after_seconds,omitempty"` // of a soak, instead of slot
}

// No fault begins in the first slots, so that the swarm can form, nor in the last ones, so that
// peers can come back.
const (
	quietFirst = 2
	quietLast  = 4
)

const (
	perFault = 4 // slots for a fault, on average, where each kind has had its turn
	perPlace = 3 // slots for a place of kind Failpoint: a peer comes to some in one slot of four
	napOneIn = 4 // victims of kind Failpoint, of which one sleeps
)

// minSlots is the shortest run that has room for a fault.
const minSlots = quietFirst + quietLast + 1

// Schedule draws the faults of a run from its seed. It depends on its arguments alone. Each kind
// occurs if there is room: one fault a slot at most.
func Schedule(seed uint64, peers int, slots uint64, kinds []Kind) (faults []Fault) {
	if slots < minSlots {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 0x63_68_61_6f_73))
	room := int(slots - quietFirst - quietLast)
	if deck := cards(rng, room, kinds); len(deck) > 0 {
		at := rng.Perm(room)[:min(room, max(len(deck), int(slots)/perFault))]
		slices.Sort(at)
		faults = deal(rng, peers, deck, len(at), func(i int, f *Fault) { f.Slot = quietFirst + uint64(at[i]) })
	}
	if slices.Contains(kinds, End) {
		faults = append(faults, Fault{Slot: slots - quietLast, Kind: End}.drawn(rng, peers))
	}
	return faults
}

// deal draws n faults, and puts each at its time: each card occurs once before any occurs again.
func deal(rng *rand.Rand, peers int, deck []Fault, n int, put func(int, *Fault)) (faults []Fault) {
	for i := range n {
		if i%len(deck) == 0 {
			rng.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
		}
		f := deck[i%len(deck)]
		put(i, &f)
		faults = append(faults, f.drawn(rng, peers))
	}
	return faults
}

// cards are the faults of which each occurs once before any occurs again. Of the places of kind
// Failpoint these are as many as a run with so much room can come to.
func cards(rng *rand.Rand, room int, kinds []Kind) (deck []Fault) {
	for _, k := range kinds {
		switch {
		case k == End: // it has its place
		case k == Failpoint:
			places := failpoint.Places()
			rng.Shuffle(len(places), func(a, b int) { places[a], places[b] = places[b], places[a] })
			for _, p := range places[:min(len(places), max(1, room/perPlace))] {
				deck = append(deck, Fault{Kind: k, Place: p})
			}
		default:
			deck = append(deck, Fault{Kind: k})
		}
	}
	return deck
}

// drawn fills in what is left to chance. A member is given up after some two seconds: some faults
// are shorter, some longer.
func (f Fault) drawn(rng *rand.Rand, peers int) Fault {
	seconds := func(least, most float64) float64 {
		if least == most {
			return least
		}
		return math.Round(10*(least+float64(rng.IntN(10))/10*(most-least))) / 10
	}
	w := f.Kind.row()
	f.Pick, f.Slots = rng.Uint64()>>32, w.slots
	if w.more > 0 {
		f.Slots += rng.Uint64N(w.more)
	}
	f.Seconds = seconds(w.least, w.most)
	switch {
	case f.Kind == Failpoint && rng.IntN(napOneIn) == 0:
		f.Slots, f.Seconds, f.Nap = 0, seconds(1, 5), true
	case w.pick == side:
		f.Side = 1 + rng.IntN((peers-1)/2)
		if rng.IntN(2) == 0 {
			f.Side = peers / 2
		}
		// the half without the senior goes on as a branch, which it gives up later; so does a
		// smaller side, with trust crash
		f.Fork = 2*f.Side == peers || rng.IntN(2) == 0
	}
	return f
}
