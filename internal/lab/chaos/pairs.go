package chaos

import (
	"fmt"
	"time"
)

// CheckPairs is the name of the check of what a cut pair costs.
const CheckPairs = "a cut pair costs little"

// pairMost is how much longer than an undisturbed slot one may take in which a pair cannot connect.
const pairMost = 1.3

// leastSlots with a cut pair, and as many others, say how long they take. With the timers of the
// internet the first two or three after the cut take seconds, until all know that the two cannot
// connect.
const leastSlots = 6

// PairSlots says how long slots took while a pair could not connect, and nothing else was wrong,
// and how long others did: medians, without the time that the schedule held the swarm back.
type PairSlots struct {
	Cut   float64 `json:"cut_seconds"`
	Calm  float64 `json:"undisturbed_seconds"`
	Ratio float64 `json:"ratio"`
	Slots int     `json:"cut_slots"`
}

func (k Kind) cutsPair() bool { return k == Pair || k == FlapPair }

// pairAlone says whether a pair is cut, and nothing else is done to the swarm.
func (c Config) pairAlone() bool { return len(c.Kinds) == 1 && c.Kinds[0].cutsPair() }

// pairSlots is nil where too few slots passed with a cut pair, or without any fault.
func (r *runner) pairSlots() *PairSlots {
	var cut, calm []float64
	for slot, end := range r.ledger.commits {
		from, ok := r.ledger.commits[slot-1]
		if !ok || slot <= quietFirst {
			continue
		}
		if opened := r.gate.opened[slot]; opened.After(from) {
			from = opened
		}
		switch took := end.Sub(from).Seconds(); r.disturbed(from, end) {
		case inPair:
			cut = append(cut, took)
		case inNone:
			calm = append(calm, took)
		case inOther:
		}
	}
	if min(len(cut), len(calm)) < leastSlots {
		return nil
	}
	p := &PairSlots{Slots: len(cut)}
	p.Cut, _ = spread(cut)
	p.Calm, _ = spread(calm)
	p.Ratio = p.Cut / max(p.Calm, 1e-3)
	return p
}

// disturbance says what was wrong during a slot.
type disturbance int

const (
	inNone disturbance = iota
	inPair             // from its beginning to its end, and nothing else
	inOther
)

func (r *runner) disturbed(from, end time.Time) (d disturbance) {
	for _, f := range r.done {
		over := f.over
		if f.Kind.cutsPair() {
			over = f.lifted
		}
		switch after := !over.IsZero() && from.After(over); {
		case f.Missed || after || !end.After(f.began):
		case f.Kind.cutsPair() && !from.Before(f.began) && (over.IsZero() || !end.After(over)):
			d = max(d, inPair)
		default:
			return inOther
		}
	}
	return d
}

// checkPairs holds the time of slots with a cut pair against that of others, where a pair was all
// that was asked for.
func (r *runner) checkPairs() Check {
	p := r.pairSlots()
	var faults []string
	if r.cfg.pairAlone() && p == nil {
		faults = []string{fmt.Sprintf("fewer than %d slots passed with a cut pair, or without: more are needed",
			leastSlots)}
	}
	if p == nil {
		return verdict(CheckPairs, faults, "")
	}
	said := fmt.Sprintf("a slot took %.2f s (median of %d), an undisturbed one %.2f s: %.2f times", p.Cut, p.Slots,
		p.Calm, p.Ratio)
	if r.cfg.pairAlone() && r.cfg.Kinds[0] == Pair && p.Ratio > pairMost {
		faults = []string{fmt.Sprintf("%s, and not %g", said, pairMost)}
	}
	return verdict(CheckPairs, faults, said)
}
