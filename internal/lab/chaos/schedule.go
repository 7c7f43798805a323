package chaos

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
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
}

// No fault begins in the first slots, so that the swarm can form, nor in the last ones, so that
// peers can come back.
const (
	quietFirst = 2
	quietLast  = 4
)

// perFault is for how many slots there is a fault, on average, where each kind has had its turn.
const perFault = 4

// perPlace is for how many slots there is one place of kind Failpoint: a peer comes to some places
// in one slot of four, and stays away for some slots.
const perPlace = 3

// napOneIn is of how many victims of kind Failpoint one sleeps. The others crash.
const napOneIn = 4

// forkTime is after how many seconds without a quorum peers fork the run, with the preset lan.
const forkTime = 20

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
	if len(deck) == 0 {
		return append([]Fault(nil), lastFault(rng, slots, kinds)...)
	}
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
	return append(faults, lastFault(rng, slots, kinds)...)
}

// lastFault is the fault at a run's end, if it is among some kinds: one of them at most.
func lastFault(rng *rand.Rand, slots uint64, kinds []Kind) []Fault {
	switch {
	case slices.Contains(kinds, End):
		return []Fault{{Slot: slots - quietLast, Kind: End, Pick: rng.Uint64() >> 32}}
	case slices.Contains(kinds, Apart):
		return []Fault{{Slot: max(slots, quietFirst+apartSlots) - apartSlots, Kind: Apart, Pick: rng.Uint64() >> 32}}
	}
	return nil
}

// cards are the faults of which each occurs once before any occurs again.
func cards(kinds []Kind) (deck []Fault) {
	for _, k := range kinds {
		switch k {
		case End, Apart: // it has its place
		case Leader:
			for _, p := range phases {
				deck = append(deck, Fault{Kind: k, Phase: p})
			}
		case Failpoint:
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
	isPlace := func(f Fault) bool { return f.Kind == Failpoint }
	first, n := slices.IndexFunc(deck, isPlace), len(failpoint.Places())
	if first < 0 {
		return deck
	}
	places := deck[first : first+n]
	rng.Shuffle(n, func(a, b int) { places[a], places[b] = places[b], places[a] })
	return slices.Delete(deck, first+min(n, max(1, room/perPlace)), first+n)
}

// drawn fills in what is left to chance. A member is given up after some two seconds: some faults
// are shorter, some longer.
func (f Fault) drawn(rng *rand.Rand, peers int) Fault {
	seconds := func(least, most float64) float64 {
		return math.Round(10*(least+float64(rng.IntN(10))/10*(most-least))) / 10
	}
	f.Pick = rng.Uint64() >> 32
	switch f.Kind {
	case Kill, Leader, Wipe, WipeTwo:
		f.Slots, f.Seconds = rng.Uint64N(4), seconds(0, 3)
	case Failpoint:
		f.Slots, f.Seconds = rng.Uint64N(3), seconds(0, 3)
		if rng.IntN(napOneIn) == 0 {
			f.Slots, f.Seconds, f.Nap = 0, 0, seconds(1, 5)
		}
	case Restart:
		f.Slots = rng.Uint64N(3)
	case Stop, Cut, OneWay:
		f.Slots, f.Seconds = 1, seconds(1, 5)
	case All:
		f.Seconds = seconds(0, 1)
	case Bootstrap:
		f.Slots, f.Seconds = 3+rng.Uint64N(4), 1
	case Late, Clock, Turns, End, Apart, DiskFull:
	case Load:
		f.Slots, f.Seconds = 2+rng.Uint64N(4), seconds(5, 9)
	case Partition:
		f.Seconds, f.Side = seconds(3, 8), 1+rng.IntN((peers-1)/2)
		if rng.IntN(2) == 0 {
			f.Side = peers / 2
		}
		if 2*f.Side == peers || rng.IntN(2) == 0 {
			// the half without the senior goes on as a branch, which it gives up later; so does a
			// smaller side, with trust crash
			f.Seconds += forkTime
		}
	case Flap, Slow, Pair, FlapPair, Loss:
		f.Seconds = seconds(3, 6)
	}
	return f
}

// Kind names a way to disturb a swarm.
type Kind string

// The kinds of faults.
const (
	Kill      Kind = "kill"      // kill -9 of a peer, which comes back with its data
	Leader    Kind = "leader"    // the same for the leader, in a given phase of a slot
	Restart   Kind = "restart"   // SIGTERM: the peer leaves, and comes back
	Wipe      Kind = "wipe"      // kill -9, and the peer comes back without its data: a new member
	Stop      Kind = "stop"      // SIGSTOP, for longer than the others wait
	All       Kind = "all"       // kill -9 of all at once; all come back
	Bootstrap Kind = "bootstrap" // kill -9 of the bootstrap node, which comes back
	Late      Kind = "late"      // a newcomer joins
	Load      Kind = "load"      // other processes take all processors; then kill -9 of a peer
	Turns     Kind = "turns"     // most peers die, the others go on and die, and all come back
	End       Kind = "end"       // a peer is away at the end; then all start once more
	Cut       Kind = "cut"       // a peer reaches no other one
	Partition Kind = "partition" // two sides cannot reach each other
	Flap      Kind = "flap"      // a peer's link goes down and up again and again
	Slow      Kind = "slow"      // a peer's link becomes slow and long
	Pair      Kind = "pair"      // two peers cannot reach each other, and all others can reach both
	Loss      Kind = "loss"      // a peer's link loses one packet in 50
)

// Kinds that a run has only if they are asked for by name.
const (
	DiskFull Kind = "disk-full" // a peer's disk gets full
	WipeTwo  Kind = "wipe-two"  // wipe of two peers at once
	FlapPair Kind = "flap-pair" // a pair that comes and goes
	OneWay   Kind = "one-way"   // what a peer sends reaches nobody, and it hears the others
	// a peer crashes, or sleeps, at a place in its code (package failpoint)
	Failpoint Kind = "failpoint"
	Clock     Kind = "clock" // a newcomer joins whose clock is 90 min fast
	// two sides are cut apart until one of them has ended the run, and the other one has gone on
	Apart Kind = "apart"
)

var byName = []Kind{DiskFull, WipeTwo, FlapPair, OneWay, Failpoint, Clock, Apart}

// links are the kinds that change links, and so need network namespaces.
var links = []Kind{Cut, Partition, Flap, Slow, Pair, FlapPair, Loss, OneWay, Apart}

// alone says whether a kind begins when no other fault is under way, and no other one begins before
// its end.
func (k Kind) alone() bool {
	return k == All || k == Partition || k == Load || k == Turns || k == End ||
		k == DiskFull || k == WipeTwo || k == Apart
}

var allKinds = lab.Names[Kind]{
	Kill, Leader, Restart, Wipe, Stop, All, Bootstrap, Late, Load, Turns, End, Cut, Partition, Flap, Slow, Pair, Loss,
}

// Kinds lists the kinds of faults that a run has unless others are named; without links, only
// those that need no network namespaces.
func Kinds(withLinks bool) lab.Names[Kind] {
	return slices.DeleteFunc(slices.Clone(allKinds),
		func(k Kind) bool { return !withLinks && slices.Contains(links, k) })
}

// ParseKinds reads a list like "kill,leader"; repeated kinds count once.
func ParseKinds(list string) (kinds lab.Names[Kind], err error) {
	for name := range strings.SplitSeq(list, ",") {
		k := Kind(strings.TrimSpace(name))
		if all := append(Kinds(true), byName...); !slices.Contains(all, k) {
			return nil, sources.Faultf("faults", list, "%q is none of %v", k, all)
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

// NeedRoot says whether some kinds need root for more than links.
func NeedRoot(kinds []Kind) bool { return slices.Contains(kinds, DiskFull) }

// NeedFailpoints says whether some kinds need a program that was built with failpoints.
func NeedFailpoints(kinds []Kind) bool {
	return slices.Contains(kinds, Failpoint) || slices.Contains(kinds, Clock)
}

// newcomer says whether a kind brings a peer, and hurts none.
func (k Kind) newcomer() bool { return k == Late || k == Clock }

// NeedLinks lists those kinds that need network namespaces.
func NeedLinks(kinds lab.Names[Kind]) lab.Names[Kind] {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return !slices.Contains(links, k) })
}

// Phase is a part of a slot, from its leader's point of view.
type Phase string

// The phases of a slot.
const (
	PhaseIdle   Phase = "idle"   // inner steps
	PhasePlan   Phase = "plan"   // the reduction runs
	PhaseDraft  Phase = "draft"  // it asks which members hold the outcome
	PhaseVote   Phase = "vote"   // it asks for votes
	PhaseCommit Phase = "commit" // it has the certificate and passes it on
)

var phases = []Phase{PhaseIdle, PhasePlan, PhaseDraft, PhaseVote, PhaseCommit}
