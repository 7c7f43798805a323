package membership

import (
	"fmt"
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// copyAudits copies what a machine knows of audits and of whom they convict.
func copyAudits(c, m *Machine) {
	hiding := &hiders{facts: c.facts, effects: c.effects, height: c.height, of: maps.Clone(m.audits.hiders.of)}
	c.audits.hiders, c.planner.hiders = hiding, hiding
	c.open.hidden = maps.Clone(m.open.hidden)
	for o, from := range c.open.hidden {
		c.open.hidden[o] = maps.Clone(from)
	}
	c.open.audits = maps.Clone(m.open.audits)
	for r, a := range c.open.audits {
		b := *a
		c.open.audits[r] = &b
	}
	ev := c.evidence
	ev.evictions = slices.Clone(ev.evictions)
	ev.accusing = accusing{
		asked: maps.Clone(ev.accusing.asked), idle: maps.Clone(ev.accusing.idle),
		unsent: maps.Clone(ev.accusing.unsent),
	}
}

// mayDie says whether a peer may die: where there are audits, the one without a vote, since the
// liar is all that four electors withstand.
func (x *explorer) mayDie(p int) bool { return x.audits == nil || p == x.audits.mortal }

// maxFalse is the number of false segments of a draft that are found or not by an audit, each for
// itself.
const maxFalse = 4

// tryAudits lists what the audits of a peer may find now.
func (x *explorer) tryAudits(w *world, p int, l local, try func(int, input, func() string)) {
	if x.audits == nil {
		return
	}
	name := labName(x.ids[p])
	for i, j := range l.jobs {
		audit, ok := j.(WorkAudit)
		if !ok {
			continue
		}
		for _, a := range x.answers(w, audit) {
			try(p, input{inAudit, i<<16 | a}, func() string {
				r := x.answer(audit, a)
				return fmt.Sprintf("%s's audit of %s finds %d false, is not shown those of %s", name,
					audit.Record.Short(), len(r.False), labNames(r.Unshown))
			})
		}
	}
}

// mayHide says whether nobody can make a peer show what it has contributed.
func (x *explorer) mayHide(w *world, p int) bool {
	return p == x.liar.at || p == x.audits.mortal && x.locals[w.peers[p]].dead
}

// answers lists the answers that an audit may have now. The bits of an answer from 0 are the false
// segments that are found, those from maxFalse the places of those that show nothing.
func (x *explorer) answers(w *world, a WorkAudit) (all []int) {
	lies := len(x.liesOf(a))
	for dark := range 1 << len(x.ids) {
		possible := true
		for p, id := range x.ids {
			contributes := slices.ContainsFunc(a.Draft.Contributions, func(o slot.Offer) bool { return o.Peer == id })
			possible = possible && (dark>>p&1 == 0 || contributes && x.mayHide(w, p))
		}
		for found := range 1 << lies {
			if possible && (!x.audits.all || dark != 0 || found == 1<<lies-1) {
				all = append(all, dark<<maxFalse|found)
			}
		}
	}
	return all
}

// liesOf lists the false segments of an audited draft.
func (x *explorer) liesOf(a WorkAudit) (segments []int) {
	for i, s := range a.Draft.Segments {
		if x.audits.lies[s.Root] && len(segments) < maxFalse {
			segments = append(segments, i)
		}
	}
	return segments
}

// mayAnswer says whether a peer is still asked for the audit that an input answers.
func (x *explorer) mayAnswer(l local, arg int) bool {
	if l.m == nil || arg>>16 >= len(l.jobs) {
		return false
	}
	_, ok := l.jobs[arg>>16].(WorkAudit)
	return ok
}

func (x *explorer) answer(a WorkAudit, answer int) ReportAudited {
	r := ReportAudited{Ref: a.Draft.Ref, Record: a.Record}
	for i, s := range x.liesOf(a) {
		if answer>>i&1 == 1 {
			r.False = append(r.False, FalseSegment{Segment: s, Proof: proofOf(a.Draft.Segments[s].Root)})
		}
	}
	for p, id := range x.ids {
		if answer>>(maxFalse+p)&1 == 1 {
			r.Unshown = append(r.Unshown, id)
		}
	}
	return r
}

// audit reports what an audit finds. One that did not pass may be made again, with another answer.
func (x *explorer) audit(l *local, arg int) {
	job := l.jobs[arg>>16].(WorkAudit)
	r := x.answer(job, arg&(1<<16-1))
	l.dark |= uint(arg & (1<<16 - 1) >> maxFalse)
	if len(r.False)+len(r.Unshown) == 0 {
		l.passed = maps.Clone(l.passed)
		if l.passed == nil {
			l.passed = map[slot.Root]bool{}
		}
		l.passed[job.Record] = true
		l.jobs = slices.Delete(slices.Clone(l.jobs), arg>>16, arg>>16+1)
	}
	x.audited(l.m, r)
}

// audited reports what an audit found.
func (x *explorer) audited(m *Machine, r ReportAudited) {
	if !x.audits.stubborn || len(r.Unshown) == 0 {
		m.Report(x.now, r)
		return
	}
	if m.open.lead == nil {
		m.Report(x.now, r)
		m.open.hidden = nil
	}
}

// checkAudited checks, as soon as the HAVEs allow a QC, that more than f honest electors have
// checked the record, and that it has no false segment if everything is sampled.
func (x *explorer) checkAudited(w *world) {
	if x.audits == nil {
		return
	}
	k, _ := x.knows(w)
	for l, haves := range k.haves {
		r := k.records[l.Hash]
		if r.Kind != slot.Step || !x.enough(len(haves)) {
			continue
		}
		checked := 0
		for _, id := range w.peers {
			checked += btoi(x.locals[id].passed[l.Hash])
		}
		lie := slices.ContainsFunc(r.Segments, func(s slot.Segment) bool { return x.audits.lies[s.Root] })
		switch {
		case lie && x.audits.all:
			x.fail(w, fmt.Sprintf("Ia: record %s, which can be certified, has a false segment", r.Hash().Short()))
		case checked <= x.rules.Liars(len(x.liar.electors)):
			x.fail(w, fmt.Sprintf("Ia: record %s can be certified, and %d honest electors have checked it",
				r.Hash().Short(), checked))
		}
	}
}

// wrongs says what a peer does to honest electors.
func (x *explorer) wrongs(l local) string {
	if x.audits == nil || l.m == nil {
		return ""
	}
	honest := func(p slot.PeerID) bool {
		i := slices.Index(x.ids, p)
		return i >= 0 && i != x.liar.at
	}
	for _, v := range l.m.evidence.evictions {
		if honest(v.peer) {
			return fmt.Sprintf("Ib: %s evicts %s", labName(l.m.cfg.Self), labName(v.peer))
		}
	}
	for v := range l.m.evidence.accusing.unsent {
		if honest(v.peer) {
			return fmt.Sprintf("Ib: %s takes %s for a liar", labName(l.m.cfg.Self), labName(v.peer))
		}
	}
	if lead := l.m.open.lead; x.crashes == 0 && lead != nil && lead.ref.Height == x.liar.ref.Height {
		for p := range lead.excluded {
			if i := slices.Index(x.ids, p); honest(p) && i != x.audits.mortal {
				return fmt.Sprintf("Ib: %s, which leads, leaves %s out", labName(l.m.cfg.Self), labName(p))
			}
		}
	}
	return ""
}
