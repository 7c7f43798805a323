package membership

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

func placeOf(b wire.Body) slot.Ref {
	switch b := b.(type) {
	case wire.Plan:
		return b.Ref
	case wire.Segment:
		return b.Ref
	case wire.Lost:
		return b.Ref
	case wire.Draft:
		return b.Ref
	case wire.Have:
		return b.Ref
	case wire.Vote:
		return b.Ref
	case wire.Retry:
		return b.Ref
	case wire.Promise:
		return b.Ref
	case wire.Propose:
		return b.Ref
	case wire.Commit:
		return b.Certificate.Ref
	}
	return slot.Ref{}
}

// checkSent checks I1 and I6 when something new is said.
func (x *explorer) checkSent(w *world, id int) {
	switch b := x.parcels[id].msg.Body.(type) {
	case wire.Commit:
		x.others(w, id, func(o wire.Message) {
			if c, ok := o.Body.(wire.Commit); ok && c.Certificate.Prev == b.Certificate.Prev &&
				c.Certificate.Hash != b.Certificate.Hash {
				x.fail(w, fmt.Sprintf("I1: two records are certified at height %d", b.Certificate.Height))
			}
		})
	case wire.Vote:
		x.others(w, id, func(o wire.Message) {
			if v, ok := o.Body.(wire.Vote); ok && o.From == x.parcels[id].msg.From && v.Ref == b.Ref &&
				v.Hash != b.Hash {
				x.fail(w, fmt.Sprintf("I6: %s votes twice in ballot %d", labName(o.From), b.Ballot))
			}
		})
		x.checkCertifiable(w)
	case wire.Promise:
		if x.liar != nil && !x.resigned(w, id, b.Ref) {
			x.fail(w, fmt.Sprintf("A4: %s goes to term %d, and no term is over for anybody",
				labName(x.parcels[id].msg.From), b.Term()))
		}
		x.others(w, id, func(o wire.Message) {
			if v, ok := o.Body.(wire.Vote); ok && o.From == x.parcels[id].msg.From && v.Height == b.Height &&
				v.Prev == b.Prev && v.Ballot < b.Ballot && (b.Lock == nil || b.Lock.Ballot < v.Ballot) {
				x.fail(w, fmt.Sprintf("I6: %s denies its vote of ballot %d", labName(o.From), v.Ballot))
			}
		})
	case wire.Have:
		x.others(w, id, func(o wire.Message) {
			if v, ok := o.Body.(wire.Have); ok && o.From == x.parcels[id].msg.From && v.Ref == b.Ref &&
				v.Hash != b.Hash {
				x.fail(w, fmt.Sprintf("I6: %s gives HAVE twice in ballot %d", labName(o.From), b.Ballot))
			}
		})
		x.checkAudited(w)
	}
}

// resigned says whether each term up to that of a ballot may be over, by what was said with message
// id: by the clock, or because its leader has ended it. The liar may end those that it leads.
func (x *explorer) resigned(w *world, id int, to slot.Ref) bool {
	if to.Term() <= x.terms {
		return true
	}
	before := to
	before.Ballot -= slot.Tries
	leads := func(p slot.PeerID) bool {
		return slices.ContainsFunc(w.peers, func(o int) bool {
			m := x.locals[o].m
			return m != nil && m.open.ref.Height == to.Height && m.open.leader(before.Ballot).Peer == p
		})
	}
	ended := leads(x.ids[x.liar.at])
	said := func(m wire.Message) {
		b, promises := m.Body.(wire.Promise)
		ended = ended || promises && b.Height == to.Height && b.Prev == to.Prev &&
			b.Term() >= to.Term() && leads(m.From)
	}
	said(x.parcels[id].msg)
	x.others(w, id, said)
	return ended && x.resigned(w, id, before)
}

func (x *explorer) others(w *world, id int, do func(wire.Message)) {
	w.parcels(func(p int) {
		if p != id {
			do(x.parcels[p].msg)
		}
	})
}

// fail notes the first fault and the schedule that led to it.
func (x *explorer) fail(w *world, fault string) {
	if x.fault != "" {
		return
	}
	x.fault = fault
	for ; w != nil; w = w.from {
		if w.by != "" {
			x.trace = append(x.trace, w.by)
		}
	}
	slices.Reverse(x.trace)
}

// had says whether all bytes are on some disk of a peer for which ok holds.
func (x *explorer) had(w *world, segments []slot.Segment, ok func(local) bool) bool {
	for _, s := range segments {
		if x.liar.serves(s.Root) {
			continue
		}
		if !slices.ContainsFunc(w.peers, func(p int) bool {
			return ok(x.locals[p]) &&
				x.locals[p].disk.segments[s.Root]
		}) {
			return false
		}
	}
	return true
}

func living(l local) bool  { return !l.dead }
func running(l local) bool { return l.m != nil }

// checkHad checks I3: while a quorum of the members of the newest certified record lives, the state
// after it can be had.
func (x *explorer) checkHad(w *world) {
	var tip wire.Commit
	for _, p := range w.peers {
		if c := x.locals[p].disk.chain; len(c) > 0 && c[len(c)-1].Record.Height > tip.Record.Height {
			tip = c[len(c)-1]
		}
	}
	alive := func(e slot.Member) bool {
		p := slices.Index(x.ids, e.Peer) // a stranger has no place
		return p >= 0 && living(x.locals[w.peers[p]])
	}
	if !x.rules.Quorum(tip.Record.Electors(), alive) {
		return
	}
	height := uint64(0)
	for _, p := range w.peers {
		height = max(height, x.locals[p].disk.height)
	}
	if height+1 < tip.Record.Height || height < tip.Record.Height && !x.had(w, tip.Record.Segments, living) {
		x.fail(w, fmt.Sprintf("I3: a quorum of %d members lives, and nobody has the state after height %d",
			len(tip.Record.Members), tip.Record.Height))
	}
}

// possible says whether a job's bytes can be had from running peers or the own disk.
func (x *explorer) possible(w *world, l local, j Work) bool {
	switch j := j.(type) {
	case WorkHold:
		return x.had(w, j.Draft.Segments, running)
	case WorkApply:
		return l.disk.height+1 == j.Record.Height && x.had(w, j.Record.Segments, running)
	}
	return false
}

func describe(b wire.Body) string {
	switch b := b.(type) {
	case wire.Vote:
		return fmt.Sprintf("VOTE %d/%d %s", b.Height, b.Ballot, b.Hash.Short())
	case wire.Propose:
		return fmt.Sprintf("PROPOSE %d/%d %s", b.Height, b.Ballot, b.Hash.Short())
	case wire.Draft:
		return fmt.Sprintf("DRAFT %d/%d %s", b.Height, b.Ballot, b.Hash.Short())
	case wire.Have:
		return fmt.Sprintf("HAVE %d/%d %s", b.Height, b.Ballot, b.Hash.Short())
	case wire.Promise:
		s := fmt.Sprintf("PROMISE %d/%d", b.Height, b.Ballot)
		if b.Lock != nil {
			s += fmt.Sprintf(" locked %d %s", b.Lock.Ballot, b.Lock.Hash.Short())
		}
		return s
	case wire.Retry:
		return fmt.Sprintf("RETRY %d/%d", b.Height, b.Ballot)
	case wire.Commit:
		return fmt.Sprintf("COMMIT %d %s", b.Certificate.Height, b.Certificate.Hash.Short())
	}
	return wire.TypeName(b.Type())
}
