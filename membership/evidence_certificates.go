package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// compare looks at the certificates of two records that follow the same one. A peer that signed
// both in one ballot, or in one attempt to fork, has contradicted itself. Two of different ballots
// convict nobody: people say which one it is to be. The certificates may be false: each
// contradiction is checked alone, and the first signature that is false ends the search.
func (ev *evidence) compare(a, b wire.Commit, electorate []slot.Member) {
	fork := a.Record.Kind == slot.Fork
	if a.Record.Prev != b.Record.Prev || a.Certificate.Hash == b.Certificate.Hash ||
		fork != (b.Record.Kind == slot.Fork) || a.Certificate.Ref != b.Certificate.Ref {
		return
	}
	body, signers := func(v slot.Vote) wire.Body { return wire.Vote{Vote: v} }, electorate
	if a.Record.Kind == slot.Fork {
		body, signers = func(v slot.Vote) wire.Body { return wire.ForkVote{Vote: v} }, a.Record.Members
	}
	for _, first := range a.Certificate.Signatures {
		i, e := slices.IndexFunc(b.Certificate.Signatures, func(s slot.Signature) bool { return s.Peer == first.Peer }),
			slot.Find(signers, first.Peer)
		if i < 0 || e < 0 {
			continue
		}
		from := wire.Message{From: first.Peer, Incarnation: signers[e].Incarnation}
		one, two := from, from
		one.Body, one.Sig = body(a.Certificate.Vote), first.Sig
		two.Body, two.Sig = body(b.Certificate.Vote), b.Certificate.Signatures[i].Sig
		// Forks of a record may list a peer in two incarnations: then it has not contradicted
		// itself.
		if !ev.found(evidenceOf(one, two)) && a.Record.Kind != slot.Fork {
			return
		}
	}
}

// found evicts a peer for what this one has put together. It returns false if that proves nothing.
func (ev *evidence) found(e wire.Evidence) (proves bool) {
	by := memberKey{e.Peer, e.Incarnation}
	if by == ev.self || ev.evicted(by) {
		return true
	}
	if checkEvidence(e, ev.cfg.Rules, ev.cfg.Verify) != nil {
		return false
	}
	ev.evict(e, true)
	return true
}
