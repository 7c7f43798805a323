package chaos

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
)

// Fault is one entry of a schedule.
type Fault struct {
	Slot    uint64  `json:"slot"` // it begins when so many slots are committed
	Kind    Kind    `json:"kind"`
	Phase   Phase   `json:"phase,omitempty"` // of leader: when it is killed
	Pick    uint64  `json:"pick"`            // draws the victim among those that may be hurt then
	Slots   uint64  `json:"slots"`           // it lasts until so many more slots are committed
	Seconds float64 `json:"seconds"`         // and at least so long
	Side    int     `json:"side,omitempty"`  // of partition: peers on the smaller side
	// of failpoint: where the victim fails, and for how many seconds it sleeps there; 0: it crashes
	Place failpoint.Place `json:"place,omitempty"`
	Nap   float64         `json:"nap,omitempty"`
	After float64         `json:"after_seconds,omitempty"` // of a soak, instead of slot
}

// No fault begins in the first slots, so that the swarm can form, nor in the last ones, so that
// peers can come back.
const (
	quietFirst = 2
	quietLast  = 4
)

const (
	perFault = 4  // slots for a fault, on average, where each kind has had its turn
	perPlace = 3  // slots for a place of kind Failpoint: a peer comes to some in one slot of four
	napOneIn = 4  // victims of kind Failpoint, of which one sleeps
	forkTime = 20 // seconds without a quorum after which peers fork the run, with the preset lan
	// that the run has left when a fault of kind Apart begins
	apartSlots = 8
)

// minSlots is the shortest run that has room for a fault.
const minSlots = quietFirst + quietLast + 1

// Schedule draws the faults of a run from its seed. It depends on its arguments alone. Each kind
// occurs, and leader in each phase, if there is room: one fault a slot at most.
func Schedule(seed uint64, peers int, slots uint64, kinds []Kind) []Fault {
	if slots < minSlots || len(kinds) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 0x63_68_61_6f_73))
	room := int(slots - quietFirst - quietLast)
	deck := somePlaces(rng, room, cards(kinds))
	count := 0
	if len(deck) > 0 {
		count = min(room, max(len(deck), int(slots)/perFault))
	}
	var at []int
	if count > 0 {
		at = rng.Perm(room)[:count]
		slices.Sort(at)
	}
	var faults []Fault
	for i := range count {
		if i%len(deck) == 0 {
			rng.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
		}
		f := deck[i%len(deck)]
		f.Slot = quietFirst + uint64(at[i])
		faults = append(faults, f.drawn(rng, peers))
	}
	// the fault at a run's end, if it is among the kinds: one of them at most
	if slices.Contains(kinds, End) {
		faults = append(faults, Fault{Slot: slots - quietLast, Kind: End}.drawn(rng, peers))
	} else if slices.Contains(kinds, Apart) {
		slot := max(slots, quietFirst+apartSlots) - apartSlots
		faults = append(faults, Fault{Slot: slot, Kind: Apart}.drawn(rng, peers))
	}
	return faults
}

// cards are the faults of which each occurs once before any occurs again.
func cards(kinds []Kind) (deck []Fault) {
	for _, k := range kinds {
		switch w := k.row(); {
		case w.is(last): // it has its place
		case w.pick == leader:
			for _, p := range phases {
				deck = append(deck, Fault{Kind: k, Phase: p})
			}
		case k == Failpoint:
			for _, p := range failpoint.Places() {
				deck = append(deck, Fault{Kind: k, Place: p})
			}
		default:
			deck = append(deck, Fault{Kind: k})
		}
	}
	return deck
}

// somePlaces draws the places of kind Failpoint that a short run has room for.
func somePlaces(rng *rand.Rand, room int, deck []Fault) []Fault {
	first := slices.IndexFunc(deck, func(f Fault) bool { return f.Place != "" })
	if first < 0 {
		return deck
	}
	n := len(failpoint.Places())
	places := deck[first : first+n]
	rng.Shuffle(n, func(a, b int) { places[a], places[b] = places[b], places[a] })
	return slices.Delete(deck, first+min(n, max(1, room/perPlace)), first+n)
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
		f.Slots, f.Seconds, f.Nap = 0, 0, seconds(1, 5)
	case w.pick == side:
		f.Side = 1 + rng.IntN((peers-1)/2)
		if rng.IntN(2) == 0 {
			f.Side = peers / 2
		}
		if 2*f.Side == peers || rng.IntN(2) == 0 {
			// the half without the senior goes on as a branch, which it gives up later; so does a
			// smaller side, with trust crash
			f.Seconds += forkTime
		}
	}
	return f
}

// schedule draws the faults, and makes them as long as the peers' timers want it.
func (c Config) schedule() []Fault {
	faults := Schedule(c.Seed, c.Peers, c.Slots, c.Kinds)
	stretch := func(s float64) float64 { return math.Round(10*c.stretch(time.Second).Seconds()*s) / 10 }
	for i := range faults {
		f := &faults[i]
		switch {
		case f.Kind == Load:
		case f.Side > 0 && f.Seconds >= forkTime: // it waits for a fork
			f.Seconds = stretch(f.Seconds-forkTime) + c.timing().Ledger.ForkAfter.Seconds()
		default:
			f.Seconds, f.Nap = stretch(f.Seconds), stretch(f.Nap)
		}
	}
	return faults
}
