package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// The window for offers ends the wait for those that have not offered yet. What newcomers offer
// costs them nothing, so it ends no wait for electors, nor for those that have earned a seat. As
// many electors as may lie end none either: they could offer as soon as a slot begins, and close
// it long before honest inner steps are done. So the time of the others starts with an offer that
// an honest elector has made or could have made, which needs no more than honest electors alone.
const (
	// fewWait is how many times as long as for a straggler fewer than most wait for more.
	fewWait = 4
	// loneWait is the same where so few electors have offered that all of them may be liars. If no
	// more lie or hang than may, others offer, and this wait is not needed.
	loneWait = 16
	// loneSteps is how many step records are looked at for those that such electors had to
	// themselves, where they are the fewer. For each the wait doubles, mostDoubled times at
	// most: it may have been too short for all others.
	loneSteps, mostDoubled = 16, 4
	// recentWithin is in how many step records recentSteps are looked for.
	recentWithin = 64
)

// windowEnds is when those that have not offered have had their time.
func (pn *planner) windowEnds(offers []slot.Offer, waiting []slot.Member) time.Duration {
	c := pn.chain
	n := len(offers) + c.Awaited(len(offers), waiting)
	switch {
	case !c.Rules().Byzantine && 2*len(offers) <= n:
		return pn.history.votersEnd(offers, offers, n, pn.lately(offers, waiting))
	case !c.FewNewcomers():
		return pn.history.graceEnds(offers, n)
	}
	counted := offers
	known := slices.DeleteFunc(slices.Clone(offers), func(o slot.Offer) bool { return c.IsNewcomer(o.Peer) })
	late, electors := 0, 0
	for _, e := range waiting {
		late += btoi(!c.IsNewcomer(e.Peer))
		electors += btoi(e.Elects())
	}
	if late > 0 && len(known) > 0 {
		counted, n = known, len(known)+late
	}
	ends := pn.history.graceEnds(counted, n)
	if electors > 0 {
		voters := pn.byElectors(offers)
		electors += len(voters)
		// else so few electors train that all may be faulty, and others have earned credit
		if len(voters) > 0 || len(known) == 0 || electors > 2*max(1, pn.history.tolerated()) {
			ends = max(ends, pn.history.votersEnd(offers, voters, electors, electors))
		}
	}
	return ends
}

// lately counts those of the contributors of the open slot that contributed to the newest steps.
func (pn *planner) lately(offers []slot.Offer, waiting []slot.Member) (n int) {
	recently := pn.history.contributedLately()
	for _, o := range offers {
		n += btoi(recently(o.Peer))
	}
	for _, e := range waiting {
		n += btoi(recently(e.Peer))
	}
	return n
}

// votersEnd is when the window closes for electors that have not offered. contributors is how many
// offer, those that have done so included, and train how many of these say where the time starts.
func (hi *history) votersEnd(offers, voters []slot.Offer, contributors, train int) time.Duration {
	at, straggler := hi.presence.offerTimes(voters), hi.cfg.Timing.Straggler
	switch first := hi.starter(train); {
	case len(at) > contributors/2:
		return hi.graceEnds(voters, contributors)
	case len(at) > first:
		return at[first] + fewWait*straggler
	}
	return hi.presence.offerTimes(offers)[0] + hi.loneStop(straggler, train)
}

// starter is which offer of so many electors that train starts the time of the others, in the order
// in which they came: the first that is not among as many as may lie, of one at least. Where so few
// train that the honest ones may not make so many offers, it is the last that these make alone.
func (hi *history) starter(train int) int {
	few := max(1, hi.tolerated())
	return max(0, min(few, train-few-1))
}

// loneStop is how long others are waited for, where so many electors train, while all that have
// offered may be liars. It grows where f+1 of these electors are honest, if no more than f lie.
func (hi *history) loneStop(straggler time.Duration, train int) time.Duration {
	lone := 0
	if few := max(1, hi.tolerated()); hi.chain.Rules().Byzantine && train > 2*few {
		hi.newestSteps(func(r slot.Record, seen int) bool {
			lone += btoi(hi.lone(r))
			return seen < loneSteps
		})
	}
	return loneWait * straggler << min(lone, mostDoubled)
}

// lone says whether no more electors contributed to a step than may lie. In trust crash no step is
// taken for a liar's: who hangs is not waited for any more after some.
func (hi *history) lone(step slot.Record) bool {
	more, electors := max(1, hi.tolerated()), hi.chain.Electorate()
	return hi.chain.Rules().Byzantine && !slices.ContainsFunc(step.Contributions, func(o slot.Offer) bool {
		more -= btoi(slot.Find(electors, o.Peer) >= 0)
		return more < 0
	})
}

// newestSteps calls a function with the newest step records since the last fork, and how many these
// are, while it returns true.
func (hi *history) newestSteps(more func(r slot.Record, seen int) bool) {
	seen := 0
	for h := hi.chain.LastStep(); h > 0 && h >= hi.chain.Lowest(); h-- {
		r := hi.chain.At(h)
		if r.Kind == slot.Fork {
			return
		}
		if r.Kind != slot.Step {
			continue
		}
		if seen++; !more(r, seen) {
			return
		}
	}
}

// contributedLately returns who contributed to all but one of the last four step records, and to
// one at least. Steps of so few electors that all may be liars say nothing of the others.
func (hi *history) contributedLately() func(slot.PeerID) bool {
	times, steps := map[slot.PeerID]int{}, 0
	hi.newestSteps(func(r slot.Record, seen int) bool {
		if hi.lone(r) {
			return seen < recentWithin
		}
		steps++
		for _, o := range r.Contributions {
			times[o.Peer]++
		}
		return steps < recentSteps && seen < recentWithin
	})
	return func(p slot.PeerID) bool { return times[p] >= max(1, steps-1) }
}
