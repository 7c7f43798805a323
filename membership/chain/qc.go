package chain

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// CheckQC says whether the HAVEs of a QC are enough for a record after the tip. Their signatures
// were checked before. It takes
//   - HAVEs of the QC's ballot by a quorum of the electors;
//   - HAVEs of any ballot by a quorum of the electors that the record lists, and by each of them
//     that is none yet. So whichever of the old electors is lost then, a living quorum of the new
//     ones includes a holder of the outcome (HOLES H11), and newcomers hold it.
//
// HAVEs of the second kind are carried along from ballot to ballot: asked for anew, one newcomer
// that falls silent could stop the height (BYZANTINE a13).
func (pos *position) CheckQC(q wire.QC, r slot.Record) error {
	if q.Hash != r.Hash() {
		return Invalid("a QC for another record")
	}
	ever := map[member]bool{}
	for _, h := range q.Haves {
		who := member{h.Peer, h.Incarnation}
		_, elector := FindMember(pos.Electorate(), h.Peer, h.Incarnation)
		_, listed := FindMember(r.Electors(), h.Peer, h.Incarnation)
		if !elector && !listed {
			return Invalid("a QC with a HAVE of %s, which is no elector", h.Peer.Short())
		}
		ever[who] = true
	}
	if err := pos.CheckHaves(q); err != nil {
		return err
	}
	if pos.TooFewHaves(r, func(m slot.Member) bool { return ever[memberOf(m)] }) {
		return Invalid("a QC of %d HAVEs, which are too few of those that its record lists", len(q.Haves))
	}
	return nil
}

// CheckHaves says whether a QC has HAVEs of its ballot by a quorum of the electors: as much can be
// told without its record.
func (pos *position) CheckHaves(q wire.QC) error {
	now := map[member]bool{}
	for _, h := range q.Haves {
		now[member{h.Peer, h.Incarnation}] = h.Ballot == q.Ballot
	}
	if !pos.rules.Quorum(pos.Electorate(), func(m slot.Member) bool { return now[memberOf(m)] }) {
		return Invalid("a QC of %d HAVEs, which are no quorum of %d electors", len(q.Haves), len(pos.Electorate()))
	}
	return nil
}

// TooFewHaves says whether those that gave HAVE for a record are too few of the electors that it
// lists: no quorum of them, or without one that is no elector yet.
func (pos *position) TooFewHaves(r slot.Record, gave func(slot.Member) bool) bool {
	for _, m := range r.Electors() {
		if _, elector := FindMember(pos.Electorate(), m.Peer, m.Incarnation); !elector && !gave(m) {
			return true
		}
	}
	return !pos.rules.Quorum(r.Electors(), gave)
}

// CheckGrounds says whether a draft's grounds justify its record in a ballot: there are promises of
// a quorum of the electors, and the record is that of the highest lock that they name, if they name
// one (BYZANTINE 4). The signatures were checked before.
func (pos *position) CheckGrounds(g wire.Grounds, ballot uint32, r slot.Record) error {
	if ballot == 0 {
		if len(g.Promises) > 0 || g.QC != nil {
			return Invalid("a draft of ballot 0 with promises")
		}
		return nil
	}
	gave := map[member]bool{}
	for _, p := range g.Promises {
		if p.Lock != nil && p.Lock.Ballot >= ballot {
			return Invalid("a promise of ballot %d with a lock of ballot %d", ballot, p.Lock.Ballot)
		}
		gave[member{p.Peer, p.Incarnation}] = true
	}
	if !pos.rules.Quorum(pos.Electorate(), func(m slot.Member) bool { return gave[memberOf(m)] }) {
		return Invalid("a draft of ballot %d with %d promises, which are no quorum of %d electors", ballot,
			len(g.Promises), len(pos.Electorate()))
	}
	switch lock := g.Highest(); {
	case lock == nil && g.QC == nil:
		return nil
	case lock == nil || g.QC == nil || g.QC.Lock() != *lock:
		return Invalid("a draft of ballot %d without the QC of the highest lock that its promises name", ballot)
	}
	return pos.CheckQC(*g.QC, r)
}

type member struct {
	peer slot.PeerID
	inc  slot.Incarnation
}

func memberOf(m slot.Member) member { return member{m.Peer, m.Incarnation} }
