package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// onLost gathers what the plan's peers report about each other. No single report is proof, and a
// failed connection may be either side's fault. The leader need not weigh reports at once, because
// owners go on without a contributor by themselves.
func (pn *planner) onLost(msg wire.Message, lost wire.Lost) error {
	if err := pn.checkMember(msg); err != nil {
		return err
	}
	l := pn.open.lead
	if l == nil || l.plan == nil || lost.Ref != l.ref || lost.Group != l.group {
		return ErrStale
	}
	of, by := l.plan.Place(lost.Peer), l.plan.Place(msg.From)
	switch {
	case of < 0 || by < 0:
		return chain.Invalid("a report about or by a peer that is not in the plan")
	case l.plan.Gone.Has(of) || l.plan.Gone.Has(by):
		return nil // settled
	}
	if lost.Reason < wire.LostConnection || lost.Reason > wire.LostOutcome {
		// this bounds the reports of one peer
		return chain.Invalid("a report for reason %d", lost.Reason)
	}
	r := report{msg.From, lost.Peer, lost.Reason, pn.now}
	if err := checkRing(*l.plan, r, lost.Round); err != nil {
		return err
	}
	pn.noteReport(r)
	return nil
}

// noteReport keeps each report once.
func (pn *planner) noteReport(r report) {
	l := pn.open.lead
	again := func(o report) bool { return o.by == r.by && o.of == r.of && o.reason == r.reason }
	if !slices.ContainsFunc(l.reports, again) {
		l.reports = append(l.reports, r)
	}
}

// someLost says whether peers of the newest plan must be taken for gone.
func (pn *planner) someLost(reports []report) bool {
	p := *pn.open.last
	_, others := ringReports(p, reports)
	return len(pn.fallen(p, others)) > 0
}

// reviseIfLost gives the pieces of peers that are gone, by some reports or because they are not
// heard any more, to others.
func (pn *planner) reviseIfLost(reports []report) bool {
	l := pn.open.lead
	ring, reports := ringReports(*l.plan, reports)
	out := pn.fallen(*l.plan, reports)
	if len(out) == 0 {
		return pn.mendRing(ring)
	}
	for _, p := range out {
		bad := func(r report) bool {
			return r.of == p && (r.reason == wire.LostBadValue || r.reason == wire.LostBadBytes) &&
				!slices.Contains(out, r.by) &&
				len(l.plan.Ring) == 0
		}
		if slices.ContainsFunc(l.reports, bad) {
			l.banned[p] = struct{}{}
		}
	}
	pn.leaveOut(out)
	return true
}

// fallen lists the peers of a plan that must be taken for gone, one after the other: the reports of
// a peer that is gone do not count any more.
func (pn *planner) fallen(p slot.Plan, reports []report) (out []slot.PeerID) {
	for {
		p = withGone(p, out)
		worst := pn.worst(p, reports)
		if worst == "" {
			return out
		}
		out = append(out, worst)
	}
}

// worst picks one of the living that must go, if any must. First comes a peer that is not heard or
// reports itself. Then, of those convicted: the one that fewer members reach, then any but this
// peer, then the one in more reports, then the higher ID.
func (pn *planner) worst(p slot.Plan, reports []report) slot.PeerID {
	alive := livingOf(p)
	acc := pn.weigh(p, alive, reports)
	for _, peer := range alive {
		e := slot.Find(pn.chain.Members(), peer)
		if e < 0 || !pn.presence.around(ofMember(pn.chain.Members()[e])) ||
			slices.Contains(acc.against[peer], peer) || pn.roster.evidence.lies(ofMember(pn.chain.Members()[e])) {
			return peer
		}
	}
	if len(acc.against) == 0 && len(pn.open.lead.statesTooFew) == 0 {
		return ""
	}
	pairFails := len(alive) == 2 && acc.pairFails
	out := slices.DeleteFunc(alive, func(q slot.PeerID) bool {
		return !pairFails && !pn.convicted(p, q, acc)
	})
	if len(out) == 0 {
		return ""
	}
	own := func(p slot.PeerID) int { return map[bool]int{true: 1}[p == pn.cfg.Self] }
	return slices.MaxFunc(out, func(a, b slot.PeerID) int {
		return cmp.Or(
			cmp.Compare(pn.presence.reachedBy(b), pn.presence.reachedBy(a)), cmp.Compare(own(b), own(a)),
			cmp.Compare(len(acc.against[a]), len(acc.against[b])), cmpPeer(a, b))
	})
}

// accusations are what the living peers of a group report of each other. The leader counts them
// with every message, so that takes one pass.
type accusations struct {
	against   map[slot.PeerID][]slot.PeerID // the accusers of a peer
	old       map[slot.PeerID][]slot.PeerID // the peers that one has accused for Timing.Lost
	pairFails bool                          // if only two are left, they cannot work together
	share     chain.Share                   // of the group, where some are old
}

// weigh counts the reports. Of the last two of a group one must go, even on a single report: this
// peer's own counts at once, another's once the other side had time to send its own.
func (pn *planner) weigh(p slot.Plan, alive []slot.PeerID, reports []report) accusations {
	acc := accusations{against: map[slot.PeerID][]slot.PeerID{}, old: map[slot.PeerID][]slot.PeerID{}}
	in := make(map[slot.PeerID]bool, len(alive))
	for _, peer := range alive {
		in[peer] = true
	}
	for _, r := range reports {
		if !in[r.by] || !in[r.of] {
			continue
		}
		acc.against[r.of] = append(acc.against[r.of], r.by)
		if pn.now-r.at >= pn.cfg.Timing.Lost {
			acc.old[r.by] = append(acc.old[r.by], r.of)
		}
		acc.pairFails = acc.pairFails || r.by == pn.cfg.Self || pn.now-r.at >= pn.cfg.Timing.Beat
	}
	for peer, by := range acc.against {
		acc.against[peer] = union(by)
	}
	for peer, of := range acc.old {
		acc.old[peer] = union(of)
	}
	if len(acc.old) > 0 {
		acc.share = pn.chain.Share(p.Offers)
	}
	return acc
}

// convicted says whether a peer must go, of a group of three or more:
//   - more than half of the others accuse it. One accuser moves nothing: a liar cannot have honest
//     peers removed one by one, and two peers that cannot connect lose their part in each other's
//     pieces and nothing else;
//   - it has accused so many, for so long, that what it can still reduce would have too few
//     contributors, or it states such ranges: it waits for word that the others are gone, and they
//     are heard.
func (pn *planner) convicted(p slot.Plan, peer slot.PeerID, acc accusations) bool {
	if p.Living() < 3 {
		return false
	}
	since, tooFew := pn.open.lead.statesTooFew[peer]
	return 2*len(acc.against[peer]) > p.Living()-1 ||
		!p.Wide(acc.leftTo(p, peer), pn.chain.Rules().MinPeers) ||
		tooFew && pn.now-since >= pn.cfg.Timing.Lost
}

// leftTo is how many of the living of a plan one of them can reduce from.
func (acc accusations) leftTo(p slot.Plan, peer slot.PeerID) int {
	if len(acc.old[peer]) == 0 {
		return p.Living()
	}
	left := livingSet(withGone(p, acc.old[peer]))
	return acc.share.Within(left, func(int) bool { return false }).Count()
}

// silentTimeouts is the number of Timing.Patience without progress after which owners count as
// silent. It is longer than an engine takes to be sure of a peer that makes no progress, since
// frames are far apart on slow links. It is less than the leader timeout at ballot 3.
const silentTimeouts = 6

// slowOwnerFactor is how many times as long as all others together an owner may take. An honest
// link may be slower by as much. An owner that drips bytes to everybody is left out after that. The
// factor is larger than the one by which an owner waits for its slowest contributor.
const slowOwnerFactor = 40

// owingOwners lists the owners that owe statements when nothing gets on, or when they alone have
// kept the others waiting for too long. It lists half of the owners at most: if most owe them, the
// reduction itself is held up. Their peers may have all their bytes and no reason to complain, and
// the slot would wait for a hung or hostile owner for ever. It happens once a ballot, so that slow
// links do not have pieces moved in turns; where members may lie, once for each that may. A leader
// that owes one itself is deposed. In a ring an owner that owes statements may wait for any other:
// see ringHangs.
func (pn *planner) owingOwners() []slot.PeerID {
	l, group := pn.open.lead, pn.open.groupReports
	longest := pn.longestWait()
	wait := min(silentTimeouts*pn.cfg.Timing.Patience, longest)
	hangs := pn.now-l.progressAt >= wait
	drags := group.group == l.group && pn.drags(wait, longest)
	often := l.leftOutSilent >= max(1, pn.cfg.Rules.Liars(len(pn.chain.Electorate())))
	if often || len(l.plan.Ring) > 0 || !hangs && !drags || 2*len(l.owing) > l.plan.Living() ||
		slices.Contains(l.owing, pn.cfg.Self) {
		return nil
	}
	return l.owing
}

// drags says whether those that owe statements have kept all others waiting for too long.
func (pn *planner) drags(wait, longest time.Duration) bool {
	l := pn.open.lead
	others := l.owingAt - pn.open.groupReports.since
	if pn.history.usualStep() == 0 {
		// It is not known yet how long a step takes, and the term is a guess. But half of a term is
		// enough: a group may be older than many terms.
		longest = max(longest, min(others/2, pn.history.stepTerm(l.ref.Term())/2>>l.leftOutSilent))
	}
	return pn.now-l.owingAt >= min(wait+slowOwnerFactor*others, longest)
}

// longestWait is how long the leader may wait for silent owners. Where members may lie all such
// waits must fit into its term, with a third left: else an owner that is silent when one honest
// leader leads has that one dropped as mute.
func (pn *planner) longestWait() time.Duration {
	l := pn.open.lead
	if !pn.cfg.Rules.Byzantine {
		return longest
	}
	return pn.history.stepTerm(l.ref.Term()) / 3 >> l.leftOutSilent
}

// noteOwing keeps the owners that owe statements, and since when.
func (pn *planner) noteOwing() {
	l := pn.open.lead
	var owing []slot.PeerID
	for _, piece := range l.plan.Pieces {
		if _, ok := l.stated(piece.Range); !ok {
			owing = append(owing, piece.Owner)
		}
	}
	if owing = union(owing); !slices.Equal(owing, l.owing) {
		l.owing, l.owingAt = owing, pn.now
	}
}

// leaveOut revises the plan without some peers, and without the newcomers that are too many beside
// those that are left (issue). They stay members, and segments that they contributed to stay as
// they are.
func (pn *planner) leaveOut(out []slot.PeerID) {
	l := pn.open.lead
	for _, p := range out {
		l.exclude(l.plan.Offers[l.plan.Place(p)])
		delete(l.crowded, p)
		if _, bad := l.banned[p]; bad {
			pn.reportBad(p)
		} else {
			pn.reportPeer(EventSuspected, ReasonFailed, p, "failed in the reduction")
		}
	}
	// Reports by them and about them are settled: no peer that is gone comes back into the group.
	// So are the reports about the circle that ends.
	_, l.reports = ringReports(*l.plan, l.reports)
	l.reports = slices.DeleteFunc(l.reports, func(r report) bool {
		return slices.Contains(out, r.by) ||
			slices.Contains(out, r.of)
	})
	revised := withGone(*l.plan, out)
	if pn.uncheckable(revised, l.segments) {
		pn.startPlan()
		return
	}
	pn.issue(revised)
}

// uncheckable says whether one of the segments has a contribution of a peer that is gone, where
// outcomes are audited: it will not show what electors want to check, and the reduction is begun
// anew without it, rather than when they have found that out. A newcomer that had to go with others
// is heard, and shows it.
func (pn *planner) uncheckable(p slot.Plan, segments map[uint64]stated) bool {
	if !pn.chain.Rules().Audits() {
		return false
	}
	for _, s := range segments {
		for i, o := range p.Offers {
			_, crowded := pn.open.lead.crowded[o.Peer]
			if p.Gone.Has(i) && s.Contributors.Has(i) && !(crowded && pn.presence.heardOf(o.Peer)) {
				return true
			}
		}
	}
	return false
}
