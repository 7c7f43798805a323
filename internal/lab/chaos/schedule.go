package chaos

import (
	"math"
	"math/rand/v2"
	"slices"
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
}

// No fault begins in the first slots, so that the swarm can form, nor in the last ones, so that
// peers can come back.
const (
	quietFirst = 2
	quietLast  = 4
)

// perFault is for how many slots there is a fault, on average, where each kind has had its turn.
const perFault = 4

// forkTime is after how many seconds without a quorum peers fork the run, with the preset lan.
const forkTime = 20

// MinSlots is the shortest run that has room for a fault.
const MinSlots = quietFirst + quietLast + 1

// Schedule draws the faults of a run from its seed. It depends on its arguments alone. Each kind
// occurs, and leader in each phase, if there is room: one fault a slot at most.
func Schedule(seed uint64, peers int, slots uint64, kinds []Kind) []Fault {
	if slots < MinSlots || len(kinds) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 0x63_68_61_6f_73))
	room := int(slots - quietFirst - quietLast)
	deck := cards(kinds)
	count := min(room, max(len(deck), int(slots)/perFault))
	at := rng.Perm(room)[:count]
	slices.Sort(at)
	var faults []Fault
	for i := range count {
		if i%len(deck) == 0 {
			rng.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
		}
		f := deck[i%len(deck)]
		f.Slot = quietFirst + uint64(at[i])
		faults = append(faults, f.drawn(rng, peers))
	}
	return faults
}

// cards are the faults of which each occurs once before any occurs again.
func cards(kinds []Kind) (deck []Fault) {
	for _, k := range kinds {
		if k != Leader {
			deck = append(deck, Fault{Kind: k})
			continue
		}
		for _, p := range phases {
			deck = append(deck, Fault{Kind: k, Phase: p})
		}
	}
	return deck
}

// drawn fills in what is left to chance. A member is given up after some two seconds: some faults
// are shorter, some longer.
func (f Fault) drawn(rng *rand.Rand, peers int) Fault {
	seconds := func(least, most float64) float64 {
		return math.Round(10*(least+float64(rng.IntN(10))/10*(most-least))) / 10
	}
	f.Pick = rng.Uint64() >> 32
	switch f.Kind {
	case Kill, Leader, Wipe:
		f.Slots, f.Seconds = rng.Uint64N(4), seconds(0, 3)
	case Restart:
		f.Slots = rng.Uint64N(3)
	case Stop, Cut:
		f.Slots, f.Seconds = 1, seconds(1, 5)
	case All:
		f.Seconds = seconds(0, 1)
	case Bootstrap:
		f.Slots, f.Seconds = 3+rng.Uint64N(4), 1
	case Late:
	case Partition:
		f.Seconds, f.Side = seconds(3, 8), (peers-1)/2-rng.IntN(2)
		if rng.IntN(2) == 0 {
			f.Side = peers / 2
		}
		if f.Side = max(f.Side, 1); 2*f.Side == peers {
			// the half without the senior goes on as a branch, which it gives up later
			f.Seconds += forkTime
		}
	case Flap, Slow:
		f.Seconds = seconds(3, 6)
	}
	return f
}
