package membership

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A peer that has forgotten old records (package chain) is asked for one of them by a newcomer, or
// by a peer that comes back after long:
//
//	NEED 1     ->
//	           <- PAST: no record up to height 2,016; part 0 of 9 of what is in their place
//	PART 1 .. 8 ->, <- PAST, one after the other
//	           verify all of it: chain.Open
//	NEED 2,049 -> and so on, record by record
//
// Who gathers it does so as with a branch: beside its own chain, from one peer, in bounds
// (incoming.go).

// past gives other peers what this one keeps in the place of old records.
type past struct {
	*facts
	*effects
	height uint64 // of the summary in packed
	packed []byte
}

// show sends a part of the past.
func (pa *past) show(to slot.PeerID, part uint32) error {
	p := pa.chain.Past()
	if p == nil || pa.chain.Height() <= p.Height { // the record that names the summary was given up
		return ErrStale
	}
	if pa.packed == nil || pa.height != p.Height {
		// up to the record that names the summary
		named := pa.chain.Above(p.Floor)[:p.Height+1-p.Floor]
		pa.height, pa.packed = p.Height, wire.PackPast(*p, named)
	}
	parts := slices.Collect(slices.Chunk(pa.packed, wire.PastPartSize))
	if int(part) >= len(parts) {
		return ErrStale
	}
	pa.send(wire.PastPart{
		Floor: p.Floor, Height: p.Height, Part: part, Parts: uint32(len(parts)), Data: parts[part],
	}, to)
	return nil
}

// onNeedPart answers with the part that is asked for, or with the first of a newer summary.
func (pa *past) onNeedPart(msg wire.Message, n wire.NeedPart) error {
	if p := pa.chain.Past(); p == nil || p.Height != n.Height {
		n.Part = 0
	}
	return pa.show(msg.From, n.Part)
}

// chooseAnew chooses between the own chain and one that begins with a past, of which this peer does
// not hold the record that both share. It follows one that goes on from its tip, or that has the
// pin which the own one lacks; and, where a crash is all that may happen, one that outdoes the fork
// which the own one began with where they parted. All else an operator has to decide.
func (co *competing) chooseAnew() (better *branch) {
	r, own := co.gathering, co.chain
	pinned, goesOn, outdone := r.chain.Pinned(), own.GoesOn(r.chain), co.outdoneAnew()
	switch further := r.chain.Height() > own.Height(); {
	case pinned && !own.Pinned() && co.forgot(r.chain):
		co.refuseForgotten()
	case own.BeginsWith(r.chain):
		// So far it is a beginning of the own chain. It moves nobody: an ancestor of a fork can
		// have more work than the fork.
		if r.chain.Height() >= r.claim.Height {
			co.judge()
		} else {
			co.askFurther()
		}
	case pinned && (!own.Pinned() || goesOn && further || outdone && co.outworks(r.chain)):
		co.gathering = nil
		return r
	case pinned && goesOn:
		co.gathering = nil // this peer got there by itself
	case r.chain.Height() < r.claim.Height:
		co.askFurther()
	case !own.Pinned():
		co.gathering = nil
		co.doubts.add(r.from, ReasonNoPin, "its chain does not show the pinned record: that was forgotten, or is not "+
			"of this run; a new ticket (p2pdiloco invite) has a pin that lasts")
	case pinned && outdone:
		co.judge() // until it has more work
	default:
		co.gathering = nil
		common := own.CommonHeight(r.chain)
		co.refuse(r, common, r.chain.LastingAbove(common))
	}
	return nil
}

// forgot says whether a chain could take this peer back to heights of which it has forgotten what
// it voted: then it could vote there a second time (HOLES H32). The lowest height that can be
// opened on a chain is the one above its summary, and of what was said up to the own summary
// nothing is kept. By itself no peer goes back there; only an operator's pin can lead there.
func (co *competing) forgot(c *chain.Chain) bool { return c.Start() < co.chain.Start() }

// refuseForgotten leaves the branch that has the pin to the operator. Another peer may show more of
// it, from a newer summary on.
func (co *competing) refuseForgotten() {
	r := co.gathering
	co.gathering = nil
	co.foreign = appendRecent(co.foreign, shownBy(r.from, r.claim.Branch))
	if co.toldForgot {
		return
	}
	co.toldForgot = true
	co.reportPeer(EventRefused, ReasonForgotten, r.from,
		fmt.Sprintf("it shows the branch that has the pinned record, from height %d on, and this peer has "+
			"forgotten what it voted up to height %d: it could vote a second time there. To have this peer on that "+
			"branch, stop it, move ledger.log and state/ away, and start it again: it comes back as a new member. If "+
			"the pin is of an old ticket for the branch here, start it again without --pin, or with a new ticket "+
			"(p2pdiloco invite)", r.chain.Start(), co.chain.Start()))
}

// outdoneAnew says whether the own chain is a fork that is provisional, and the gathered one the
// run's, which those who decide where the two parted went on with. As in mayGiveUp, a certificate
// of theirs is what a peer gives its own records up for by itself.
func (co *competing) outdoneAnew() bool {
	own, theirs := co.chain, co.gathering.chain
	return !co.cfg.Rules.Byzantine && own.BranchKind() != chain.IsRun && theirs.BranchKind() == chain.IsRun &&
		own.ForkedFrom(theirs) && !co.forgot(theirs)
}

// outworks says whether a chain comes before the own one by its end, or else by its work.
func (co *competing) outworks(c *chain.Chain) bool {
	if theirs, ours := endsTheRun(c), endsTheRun(co.chain); theirs != ours {
		return theirs
	}
	return c.Tip().Work > co.chain.Tip().Work
}

// beginAnew makes a chain the own one that begins with a past. What the own chain has beyond what
// both share is given up.
func (m *Machine) beginAnew(r *branch) {
	given, anew := m.chain, r.chain
	m.pledges.setAside()
	goesOn := given.Height() == 0 || given.Pinned() && given.GoesOn(anew)
	if !goesOn {
		from := max(given.Floor(), given.CommonHeight(anew), anew.Start())
		for _, c := range given.Above(min(from, given.Height())) {
			m.pledges.keepDecided(c)
			m.persist(wire.EntryDecided(c))
		}
	}
	m.pledges.forget(anew.Start())
	m.persist(wire.EntryPast{Past: *anew.Past(), Fresh: true})
	for _, c := range anew.Commits() {
		m.persist(wire.EntryCommit(c))
	}
	unseen := anew.Start()
	if goesOn {
		unseen = max(unseen, given.Height())
	}
	for _, c := range anew.Above(unseen) {
		m.clones.checkOwnSignatures(c, anew, m.pledges.of(c.Record), m.own.offerSeq)
	}
	for _, c := range anew.Commits() {
		m.pledges.pass(c.Record)
	}
	m.moveTo(anew)
	if !goesOn {
		m.switches++
		m.own.mine = nil
	}
	e := Event{
		Height: anew.Height(), Slot: anew.Tip().Slot, Members: peersOf(anew.Members()), Root: anew.TipHash(),
		Peer: r.from,
	}
	e.Kind, e.Detail = EventSummary, fmt.Sprintf(
		"records up to height %d are not fetched: a summary that later records certify is in their place", anew.Floor())
	m.event(e)
	if !goesOn {
		e.Kind, e.Detail = EventSwitched, "the records here are given up for the branch that has the pinned record"
		if given.Pinned() {
			e.Detail = fmt.Sprintf("the records here above height %d are given up for the branch that a quorum of the "+
				"members there went on with", given.CommonHeight(anew))
		}
		m.event(e)
	}
	for _, c := range anew.Above(unseen) {
		m.reportRecord(EventCertified, c.Record, c.Certificate.Ballot)
	}
	m.news.reportMembers(e, given.Members(), anew.Members())
}

// forgetRecords forgets records that no rule asks for any more, and what this peer said on branches
// that it left as long ago.
func (m *Machine) forgetRecords() {
	if p, pruned := m.chain.Prune(m.cfg.KeepRecords); pruned {
		m.persist(wire.EntryPast{Past: p})
		m.pledges.forget(p.Height)
	}
}
