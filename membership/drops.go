package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// checkDrops says whether a record may leave out those members of the record before it that it does
// not list. In trust byzantine a leader has to prove each drop; else it could list itself alone
// (a2). These prove one, and nothing else does:
//   - the member's own LEAVE, of this membership;
//   - RETIRED, signed with the member's key: the vote log of this incarnation is gone;
//   - evidence that this incarnation has contradicted itself;
//   - an order to remove it, in an access record that a quorum has ordered;
//   - statements of a quorum of the electors, at this position.
//
// The signatures of the attachments were checked before (wire.CheckProofs), those of orders are
// checked with the record. The function is pure.
func checkDrops(rules chain.Rules, electors, before []slot.Member, r slot.Record, a wire.Attachments) error {
	for _, m := range before {
		if _, stays := chain.FindMember(r.Members, m.Peer, m.Incarnation); stays {
			continue
		}
		switch {
		case leaves(a, m), retires(a, m), convicts(a, m, rules.CheckProof), ordered(r, m):
		case states(rules, electors, before, m, a.Statements, false):
		default:
			return chain.Invalid("a draft drops %s without proof: it has not left, its vote log is not gone, "+
				"it did not contradict itself, nobody ordered its removal, and no quorum of the %d electors "+
				"states that it is lost", m.Peer.Short(), len(electors))
		}
	}
	return nil
}

// checkEntries says whether a record has proof for what it makes of those that it leaves out: only
// evidence evicts a key, and only LEAVE, RETIRED and statements that it is idle end the credit of a
// member.
func checkEntries(c *chain.Chain, r slot.Record, a wire.Attachments) error {
	t := chain.Turnover{
		Listed: r.Members,
		Deleted: func(m slot.Member) bool {
			return leaves(a, m) || retires(a, m) ||
				states(c.Rules(), c.Electorate(), c.Members(), m, a.Statements, true)
		},
	}
	for _, p := range r.Evicted {
		switch {
		case slices.Contains(c.Tip().Evicted, p):
		case slices.ContainsFunc(a.Evidence,
			func(e wire.Evidence) bool { return e.Peer == p && contradicts(e, c.Rules().CheckProof) == nil }):
			t.Evicted = append(t.Evicted, p)
		default:
			return chain.Invalid("a draft evicts %s without evidence", p.Short())
		}
	}
	if want := c.Settle(r, t).Absent; !slices.Equal(want, r.Absent) {
		return chain.Invalid("a draft with %d absent members, where by what is attached %d should be", len(r.Absent),
			len(want))
	}
	return nil
}

func leaves(a wire.Attachments, m slot.Member) bool {
	return slices.ContainsFunc(a.Leaves, func(l wire.SignedLeave) bool {
		return l.Peer == m.Peer && l.Incarnation == m.Incarnation && l.Since == m.Since
	})
}

func retires(a wire.Attachments, m slot.Member) bool {
	return slices.ContainsFunc(a.Retired, func(x wire.SignedRetired) bool {
		return x.Peer == m.Peer && x.Old == m.Incarnation && x.Incarnation != m.Incarnation
	})
}

func convicts(a wire.Attachments, m slot.Member, proofs chain.ProofChecker) bool {
	return slices.ContainsFunc(a.Evidence, func(e wire.Evidence) bool {
		return e.Peer == m.Peer && e.Incarnation == m.Incarnation && contradicts(e, proofs) == nil
	})
}

func ordered(r slot.Record, m slot.Member) bool {
	return r.Kind == slot.Access && slices.ContainsFunc(r.Decisions, func(d slot.Decision) bool {
		return d.Action == slot.Remove && d.Peer == m.Peer
	})
}

// states says whether a quorum of the electors has stated that a member is lost, or, of an idle
// one, that it takes no part.
func states(
	rules chain.Rules, electors, members []slot.Member, m slot.Member, said []wire.SignedStatement, idle bool,
) bool {
	i, n := slot.Find(members, m.Peer), len(members)
	return i >= 0 && ofMember(members[i]) == ofMember(m) && rules.Quorum(electors, func(e slot.Member) bool {
		return slices.ContainsFunc(said, func(s wire.SignedStatement) bool {
			return s.Peer == e.Peer && s.Incarnation == e.Incarnation && s.Unheard.Fits(n) && s.Mute.Fits(n) &&
				(s.Mute.Has(i) || !idle && s.Unheard.Has(i))
		})
	})
}
