package membership

import (
	"math"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// recentSlots is the number of slots of which times are kept. The grace window follows from them.
const recentSlots = 4

// history keeps how long recent slots took, and estimates how long the next one will take.
type history struct {
	*facts
	*effects
	*height
	presence *presence
	spreads  [recentSlots]time.Duration // of finishing times
	// from plans to records; 0: not known
	reductions [recentSlots]time.Duration
	usual      time.Duration // that a reduction takes, likewise; 0: not known
	// what the newest steps took here, from the time when they were owed to their certificates; 0:
	// not known
	steps     [usualSteps]time.Duration
	ringsFrom uint64        // the slot from which plans of this peer's may have rings
	slotAt    time.Duration // when the open slot began; the value never while that is not known
	slotTook  time.Duration // the slot before
}

// graceEnds is when the window closes. It opens once most contributors have offered, lasts
// GraceFactor times the recent spread of finishing times, and no longer than one straggler may hold
// up a slot. Fewer than most wait longer for more, from the first offer on that is not among as
// many as may lie, which could offer at once; while there is none they wait longest. GraceShare
// keeps it in proportion: a peer that slows down in the middle of a run costs the others that share
// of a slot, however long theirs take. Where contributors train on beside a reduction, it lasts for
// as long as that costs nobody anything.
func (hi *history) graceEnds(offers []slot.Offer, contributors int) time.Duration {
	t := hi.cfg.Timing
	at := hi.presence.offerTimes(offers)
	most := contributors/2 + 1
	if len(at) < most {
		few := max(1, hi.tolerated())
		if first := max(0, min(few, contributors-few-1)); len(at) > first {
			return at[first] + fewWait*t.Straggler
		}
		return hi.loneEnds(offers, contributors)
	}
	spread := time.Duration(t.GraceFactor * float64(slices.Max(hi.spreads[:])))
	if t.GraceShare > 0 && hi.slotAt != never {
		spread = min(spread, time.Duration(t.GraceShare*float64(at[most-1]-hi.slotAt)))
	}
	return max(at[most-1]+min(max(t.MinGrace, spread), max(t.Straggler, t.MinGrace)), hi.idleFrom(offers))
}

// These are how many times as long as for a straggler fewer than most wait for more, and so few
// that all of them may lie.
const fewWait, loneWait, mostDoubled = 4, 16, 4

// loneEnds is when the window closes while so few have offered that all of them may lie. It doubles
// for each recent step that such few had to themselves, up to a bound: it may have been too short
// for all others. It does not where so few contribute that the honest ones may not be more.
func (hi *history) loneEnds(offers []slot.Offer, contributors int) time.Duration {
	wait := loneWait * hi.cfg.Timing.Straggler
	if contributors > 2*hi.tolerated() {
		wait <<= min(hi.chain.LoneSteps(), mostDoubled)
	}
	return hi.presence.offerTimes(offers)[0] + wait
}

// idleFrom is the latest that a reduction may begin if no contributor is to stand still because of
// it: the first that offered is through with its inner steps beside the slot then, less what
// reductions take. It is never if they do none. A stale contribution was late for another slot, and
// does not count. How long those inner steps take is what half of the offers say at most, so that
// no single one can draw it out; newcomers have no say.
func (hi *history) idleFrom(offers []slot.Offer) time.Duration {
	t := hi.cfg.Timing
	stale := func(o slot.Offer) bool { return o.Base+1 != o.Slot }
	fresh := hi.chain.KnownOf(slices.DeleteFunc(slices.Clone(offers), stale))
	if t.Beside == 0 || len(fresh) == 0 {
		return never
	}
	var beside []time.Duration
	for _, o := range fresh {
		took := float64(min(o.Steps, t.Beside)) * float64(o.StepTime) * float64(time.Microsecond)
		beside = append(beside, time.Duration(min(took, float64(fewWait*t.Straggler))))
	}
	slices.Sort(beside)
	lasts := beside[(len(beside)-1)/2]
	return hi.presence.offerTimes(fresh)[0] + lasts - hi.reduction(lasts)
}

// reduction is how long it takes from a plan to its record, with some to spare: that of the second
// slowest of recent slots, so that one that a peer was lost in does not count; half of the time
// there is, as long as nothing is known.
func (hi *history) reduction(lasts time.Duration) time.Duration {
	known := slices.DeleteFunc(slices.Clone(hi.reductions[:]), func(d time.Duration) bool { return d == 0 })
	if len(known) == 0 {
		return lasts / 2
	}
	slices.Sort(known)
	return known[max(0, len(known)-2)] * 5 / 4
}

// noteReduction records how long the open slot took from its plan to its record.
func (hi *history) noteReduction(r slot.Record) {
	p := hi.open.last
	if p == nil || p.Slot != r.Slot {
		return
	}
	took := max(1, hi.now-hi.open.groupReports.since)
	hi.noteUsual(took)
	if hi.cfg.Timing.Beside > 0 {
		copy(hi.reductions[1:], hi.reductions[:])
		hi.reductions[0] = took
	}
}

// spread is how far apart the contributors of the open slot finished, of those that could begin
// together.
func (hi *history) spread() time.Duration {
	at := hi.presence.offerTimes(slices.DeleteFunc(hi.presence.offers(),
		func(o slot.Offer) bool { return hi.cameDuring(o.Peer) }))
	if len(at) < 2 {
		return never
	}
	return at[len(at)-1] - at[0]
}

// noteSpread records the spread of a slot that is over.
func (hi *history) noteSpread(spread time.Duration) {
	if spread != never {
		copy(hi.spreads[1:], hi.spreads[:])
		hi.spreads[0] = spread
	}
}

// ringRest is the number of slots for which leaders take no ring, after a ring was given up.
const ringRest = 16

// links returns what is known of the links between the peers of a group: what each announces in
// ALIVE, and what this peer knows itself. Peers without a connection may never have tried to
// connect: a link counts as missing only if one of the two has tried in vain.
func (hi *history) links(offers []slot.Offer) slot.Links {
	links := slot.Links{
		Ways: make([][]slot.Link, len(offers)), Uplinks: make([]slot.Link, len(offers)),
		NoRing: hi.chain.OpenSlot() < hi.ringsFrom,
	}
	for i, o := range offers {
		links.Ways[i] = make([]slot.Link, len(offers))
		ways, uplink := hi.presence.linksOf(o.Peer)
		for j, to := range offers {
			links.Ways[i][j] = ways[to.Peer]
		}
		links.Uplinks[i] = uplink
		links.NoOwner = append(links.NoOwner, !hi.chain.MayOwn(o.Peer))
	}
	return links
}

// restRings keeps this peer from planning rings for a while, including this slot.
func (hi *history) restRings(s uint64) { hi.ringsFrom = s + 1 + ringRest }

// usualSteps is the number of steps of which the median says what a step usually takes. Leaders
// that lie can draw out those that they lead, which are fewer than half.
const usualSteps = 9

// noteStep remembers how long the step that is decided took, if this peer has seen it owed. Terms
// that came to nothing do not count: else terms that are lost make the next ones longer, and those
// cost more when they are lost. A term whose group the deciding one finished did not come to
// nothing: else terms would stay shorter than a reduction for good.
func (hi *history) noteStep() {
	if hi.open.owed == never {
		return
	}
	copy(hi.steps[1:], hi.steps[:])
	since := hi.open.owed
	if p := hi.open.last; p == nil || p.Opened.Term() == hi.open.term() {
		since = max(since, hi.open.began)
	}
	hi.steps[0] = max(1, hi.now-since)
}

// usualStep is the median of what the newest steps took here; 0: not known.
func (hi *history) usualStep() time.Duration {
	known := slices.DeleteFunc(slices.Clone(hi.steps[:]), func(d time.Duration) bool { return d == 0 })
	if len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return known[(len(known)-1)/2]
}

// stepTerm is how long a leader has for a step where members may lie: three times what a step
// usually takes here, from the time when work was owed to the certificate.
func (hi *history) stepTerm(term uint32) time.Duration {
	return hi.doubled(max(hi.cfg.Timing.leastTerm(), 3*hi.usualStep()), term)
}

// longest keeps a term's time from overflowing.
const longest = time.Duration(math.MaxInt64 / 4)

// doubled is a term's time, doubled with each term, six times at most, up to the run's term_cap.
func (hi *history) doubled(d time.Duration, term uint32) time.Duration {
	most := longest
	if c := hi.cfg.Rules.TermCap; c > 0 {
		most = max(c, hi.cfg.Timing.Patience)
	}
	for term = min(term, 6); term > 0 && d < most; term-- {
		d *= 2
	}
	return min(d, most)
}

// noteUsual remembers how long reductions take, from the plan to the record. It grows slowly: a
// peer that draws them out does not gain by it.
func (hi *history) noteUsual(took time.Duration) {
	if hi.usual == 0 {
		hi.usual = took
	}
	hi.usual = min(took, hi.usual+hi.usual/8)
}
