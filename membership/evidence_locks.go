package membership

import (
	"bytes"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A PROMISE names the lock of its elector, which is its VOTE of the highest ballot. So a VOTE in
// one ballot, and a PROMISE for a higher one that names a lower lock or none, contradict each
// other: the elector has voted for a record, and has let the next leader believe that it has not.
// That is how liars get a second record certified at a height, in a higher ballot (BYZANTINE m16).
//
// PROMISEs come to the leader of their ballot, and to all others as the grounds of its draft. VOTEs
// come to the leader of their ballot, and to all others in the certificate, which may come much
// later. So the grounds are kept, on disk, for longer than the height.

// denies says whether a promise denies a vote of the same elector.
func denies(p wire.Promise, v slot.Vote) bool {
	return p.Height == v.Height && p.Prev == v.Prev && p.Ballot > v.Ballot &&
		(p.Lock == nil || p.Lock.Ballot < v.Ballot || p.Lock.Ballot == v.Ballot && p.Lock.Hash != v.Hash)
}

// watchLocks compares the promises at the open position with the votes there: those that come as
// messages, and those in the grounds of a draft.
func (ev *evidence) watchLocks(msg wire.Message) {
	switch b := msg.Body.(type) {
	case wire.Vote, wire.Promise:
		ev.watchLock(msg)
	case wire.Draft:
		for _, p := range b.Grounds.Promises {
			ev.watchLock(promiseOf(p, b.Ref))
		}
	}
}

// maxLocksBy is the number of votes and promises that are remembered of one member at the open
// position.
const maxLocksBy = 64

// watchLock compares a vote with the promises of its elector, or a promise with its votes.
func (ev *evidence) watchLock(msg wire.Message) {
	by := memberKey{msg.From, msg.Incarnation}
	if by == ev.self || ev.fromMember(msg) != nil || ev.evicted(by) {
		return
	}
	before := ev.locks[by]
	for _, other := range before {
		if e, ok := denial(msg, other); ok {
			ev.evict(e, true)
			return
		}
		if other.Body.Type() == msg.Body.Type() && bytes.Equal(other.Sig, msg.Sig) {
			return // it was repeated
		}
	}
	if len(before) < maxLocksBy {
		ev.locks[by] = append(slices.Clip(before), signed(msg))
	}
}

// denial makes evidence of two messages of one elector, if one is a vote and the other a promise
// that denies it.
func denial(a, b wire.Message) (e wire.Evidence, ok bool) {
	if _, first := a.Body.(wire.Promise); first {
		a, b = b, a
	}
	v, voted := a.Body.(wire.Vote)
	p, promised := b.Body.(wire.Promise)
	if !voted || !promised || !denies(p, v.Vote) {
		return e, false
	}
	return evidenceOf(a, b), true
}

// promiseOf returns a promise of a draft's grounds as the message that it was.
func promiseOf(p wire.Promised, draft slot.Ref) wire.Message {
	return wire.Message{
		From: p.Peer, Incarnation: p.Incarnation, Body: wire.Promise{Ref: draft, Lock: p.Lock}, Sig: p.Sig,
	}
}

// keepGrounds keeps the promises of a draft that this peer is about to give HAVE for. They are on
// disk before that HAVE leaves.
func (ev *evidence) keepGrounds(draft slot.Ref, g wire.Grounds) {
	if len(g.Promises) > 0 {
		e := wire.EntryGrounds{Ref: draft, Promises: g.Promises}
		ev.grounds = ev.grounds.Add(e)
		ev.persist(e)
	}
}

// compare looks at the certificates of two records that follow the same one. A peer that signed
// both in one ballot, or in one attempt to fork, has contradicted itself. So has one that signed
// the one of the lower ballot, and has denied it in grounds that are kept here. The certificates
// may be false: each contradiction is checked alone, and the first signature that is false ends the
// search.
func (ev *evidence) compare(a, b wire.Commit, electorate []slot.Member) {
	fork := a.Record.Kind == slot.Fork
	if a.Record.Prev != b.Record.Prev || a.Certificate.Hash == b.Certificate.Hash ||
		fork != (b.Record.Kind == slot.Fork) {
		return
	}
	if a.Certificate.Ref == b.Certificate.Ref {
		ev.compareSigners(a, b, electorate)
		return
	}
	ev.checkLocks(a, electorate)
	ev.checkLocks(b, electorate)
}

func (ev *evidence) compareSigners(a, b wire.Commit, electorate []slot.Member) {
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

// checkLocks looks for electors that voted for a certified record, and denied that in a promise
// for a higher ballot.
func (ev *evidence) checkLocks(c wire.Commit, electorate []slot.Member) {
	if c.Record.Kind == slot.Fork {
		return
	}
	for _, g := range ev.grounds.At(wire.Position{Height: c.Record.Height, Prev: c.Record.Prev}) {
		for _, p := range g.Promises {
			i := slices.IndexFunc(c.Certificate.Signatures, func(s slot.Signature) bool { return s.Peer == p.Peer })
			e := slot.Find(electorate, p.Peer)
			if i < 0 || e < 0 || electorate[e].Incarnation != p.Incarnation {
				continue
			}
			vote := wire.Message{
				From: p.Peer, Incarnation: p.Incarnation, Body: wire.Vote{Vote: c.Certificate.Vote},
				Sig: c.Certificate.Signatures[i].Sig,
			}
			if e, ok := denial(vote, promiseOf(p, g.Ref)); ok && !ev.found(e) {
				return
			}
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

// showLower sends the electors the certificate of the lower ballot, of two that this peer has
// verified at one height: some of them may hold the grounds that convict those who signed both.
func (ev *evidence) showLower(a, b wire.Commit, electors []slot.Member) {
	if a.Record.Kind == slot.Fork || b.Record.Kind == slot.Fork || a.Record.Prev != b.Record.Prev ||
		a.Certificate.Ballot == b.Certificate.Ballot {
		return
	}
	if b.Certificate.Ballot < a.Certificate.Ballot {
		a = b
	}
	if !slices.Contains(ev.shown, a.Certificate.Hash) {
		ev.shown = appendRecent(ev.shown, a.Certificate.Hash)
		ev.send(a, without(peersOf(electors), ev.cfg.Self)...)
	}
}
