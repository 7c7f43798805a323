package membership

import (
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// fork lets a run go on when no quorum of the tip's members is left.
type fork struct {
	*facts
	*effects
	presence *presence
	quorum   *quorum
	model    *model
	own      *own
	roster   *roster
	pledges  *pledges
	forking
}

// forking makes a fork record, which lets a run go on when no quorum of the tip's members is left.
// Every elector that it lists signs it. It belongs to the open position. Where a fork takes a
// majority of the electors (chain.MajorityForks), fewer of them wait, and peers that are no
// electors cannot fork.
//
// The senior of those that are heard sends FORKDRAFT with the record to all that it lists. Each of
// them that has waited long enough itself signs, mark on disk first, and sends FORK to all of them:
// any one can put the certificate together, so a signer that dies in between stops nothing. Regular
// votes at the place go on meanwhile: what a fork starts is another branch, and contradicts nothing
// that is decided on this one.
type forking struct {
	// when a quorum of the tip's members was last heard; of peers that are none of them, a member
	lost    time.Duration
	without bool          // there is none
	ordered bool          // an operator said recover
	atOnce  time.Duration // since when this peer need not wait before the first attempt
	attempts
	signed  *wire.EntryFork // the newest signature of this peer
	at      time.Duration   // when it was given, or taken from disk
	sent    time.Duration
	sigs    map[slot.PeerID][]byte
	drafter slot.PeerID        // of the record that is signed
	leads   bool               // that is this peer
	passed  map[memberKey]bool // that did not sign its last attempt
}

func newForking(saved *wire.EntryFork) forking {
	f := forking{
		lost: never, atOnce: never, at: never, sent: never, signed: saved,
		sigs: map[slot.PeerID][]byte{}, passed: map[memberKey]bool{},
	}
	if saved != nil {
		f.next = saved.Ballot + 1
	}
	return f
}

// stalled says whether this peer would fork: nobody could decide the open height for long enough,
// or an operator has ordered it.
func (fk *fork) stalled() bool {
	f, wait := &fk.forking, fk.cfg.Timing.ForkAfter
	if fk.chain.Height() == 0 || f.lost == never {
		return false
	}
	if f.ordered {
		return true
	}
	return fk.entitled() && wait > 0 && !fk.cfg.PauseOnLoss && (fk.now-f.lost >= wait || fk.quorum.beyond())
}

// restart counts the time without a quorum from now on.
func (fk *fork) restart() {
	if fk.lost != never {
		fk.lost = fk.now
	}
	fk.atOnce = never
}

// forkPause is the time between two signatures at one position. An operator's order has a pause of
// its own if no time to fork after is set.
func (fk *fork) forkPause() time.Duration {
	if t := fk.cfg.Timing.ForkAfter; t > 0 {
		return t
	}
	return 8 * fk.cfg.Timing.Lost
}

// consider counts the time without a quorum, and starts an attempt or repeats one.
func (fk *fork) consider(gathering bool) {
	f := &fk.forking
	if fk.chain.Height() == 0 || fk.member() && fk.quorum.heard() && fk.pledges.open.Decided == nil ||
		!fk.member() && fk.presence.memberShows() {
		f.lost, f.ordered, f.without, f.atOnce = fk.now, false, false, never
		return
	}
	if f.lost == never {
		f.lost = fk.now
	}
	f.without = true
	if f.atOnce == never && (f.ordered || fk.quorum.beyond()) {
		f.atOnce = fk.now
	}
	switch {
	case !fk.mayFork(gathering):
	case f.signed != nil && fk.now-f.at < fk.forkPause():
		fk.repeat()
	default:
		fk.propose()
	}
}

// mayFork says whether this peer would sign a fork now: the state at the tip is on its disk, too.
func (fk *fork) mayFork(gathering bool) bool {
	return fk.stalled() && fk.entitled() && fk.model.atTip() && !fk.own.left &&
		!fk.own.leaving && !fk.chain.Ended() && fk.chain.Pinned() && !fk.follows(gathering)
}

// follows says whether this peer waits for the branch that it gathers, which may be the way on. It
// does not wait for ever: one that goes on with each slot is gathered anew each time.
func (fk *fork) follows(gathering bool) bool {
	return gathering && fk.now-fk.lost < 3*fk.forkPause()
}

// forkers lists the peers that could fork the tip: those that are entitled to, are heard, stand at
// it and do not leave.
func (fk *fork) forkers() (list []slot.Member) {
	for _, a := range fk.presence.sorted(func(a *contact) bool { return fk.presence.around(a.memberKey) }) {
		_, member := chain.FindMember(fk.first(), a.peer, a.inc)
		other := a.memberKey != fk.self
		if !member || other && (fk.roster.unwelcome(a.memberKey) || !fk.presence.atOurTip(a) ||
			fk.passed[a.memberKey] || a.leaving) {
			continue
		}
		if slot.Find(list, a.peer) < 0 {
			list = append(list, fk.chain.Listing(a.peer, a.inc))
		}
	}
	return list
}

// propose opens an attempt, if it is this peer's turn. It passes over a peer, once, that did not
// sign its last one.
func (fk *fork) propose() {
	f := &fk.forking
	if f.leads {
		f.passed = map[memberKey]bool{}
		for _, e := range f.signed.Record.Electors() {
			if f.sigs[e.Peer] == nil {
				f.passed[ofMember(e)] = true
			}
		}
	}
	list := fk.forkers()
	if len(f.passed) > 0 && !fk.enough(list) {
		f.passed = map[memberKey]bool{}
		list = fk.forkers()
	}
	f.passed, f.leads = map[memberKey]bool{}, false
	r := fk.draft(list)
	if !fk.enough(list) || !fk.mayDraft(fk.cfg.Self, r.Electors()) {
		return
	}
	ref := fk.chain.Next()
	ref.Ballot = f.next
	fk.sign(ref, r, fk.cfg.Self)
	f.leads = true
	fk.repeat()
}

func (fk *fork) draft(list []slot.Member) slot.Record {
	ref := fk.chain.Next()
	return fk.chain.SettleFork(slot.Record{
		Run: fk.cfg.Rules.Run, Height: ref.Height, Kind: slot.Fork, Prev: ref.Prev, Slot: fk.chain.Tip().Slot,
		StateRoot: fk.model.state.root, Work: fk.chain.Tip().Work,
	}, chain.Turnover{Listed: list, Evicted: fk.convicted()})
}

// sign signs a record, mark on disk first (I6): no other one in this attempt, whatever happens.
func (fk *fork) sign(ref slot.Ref, r slot.Record, drafter slot.PeerID) {
	f := &fk.forking
	f.signed, f.at, f.sent, f.leads = &wire.EntryFork{Ref: ref, Record: r}, fk.now, never, false
	f.drafter = drafter
	fk.pledges.open.Fork = f.signed
	f.next, f.sigs = max(f.next, ref.Ballot+1), map[slot.PeerID][]byte{}
	fk.persist(*f.signed)
}

// repeat sends the own signature again to all peers that are to sign, and the record with it if
// this peer leads the attempt.
func (fk *fork) repeat() {
	f := &fk.forking
	if fk.now-f.sent < fk.cfg.Timing.Retry {
		return
	}
	f.sent = fk.now
	all := peersOf(f.signed.Record.Electors())
	if others := without(all, fk.cfg.Self); f.leads && len(others) > 0 {
		fk.send(wire.ForkDraft{Ballot: f.signed.Ballot, Record: f.signed.Record}, others...)
	}
	fk.send(wire.ForkVote{Vote: slot.Vote{Ref: f.signed.Ref, Hash: f.signed.Record.Hash()}}, all...)
}

// onDraft signs a fork that lists this peer, if it would fork itself by now and has not
// signed another one lately.
func (fk *fork) onDraft(msg wire.Message, p wire.ForkDraft, gathering bool) error {
	f, r := &fk.forking, p.Record
	if r.Kind != slot.Fork {
		return chain.Invalid("a %s record as a fork", r.Kind)
	}
	signers := r.Electors()
	if _, in := chain.FindMember(signers, msg.From, msg.Incarnation); !in || fk.chain.Height() == 0 {
		return ErrSender
	}
	_, in := chain.FindMember(signers, fk.cfg.Self, fk.cfg.Incarnation)
	if !in || !f.hear(p.Ballot, fk.now, fk.forkPause()) {
		return chain.Invalid("a fork in attempt %d that does not list this peer", p.Ballot)
	}
	if err := fk.chain.Check(r, 0); err != nil {
		return err
	}
	if p, ok := fk.evictsInnocent(r); ok {
		return fmt.Errorf("%w: nothing is known here of what %s is evicted for", ErrStale, p.Short())
	}
	switch s := f.signed; {
	case s != nil && s.Ballot == p.Ballot && s.Record.Hash() == r.Hash():
		fk.repeat()
	case s != nil && (s.Ballot >= p.Ballot || fk.now-f.at < fk.forkPause()):
		return fmt.Errorf("%w: another fork is signed", ErrStale)
	case fk.chain.MajorityForks() && !fk.mayDraft(msg.From, fk.forkers()):
		return fmt.Errorf("%w: it is another elector's turn to draft the fork", ErrStale)
	case fk.mayFork(gathering) && r.StateRoot == fk.model.state.root:
		fk.sign(p.At(), r, msg.From)
		fk.repeat()
	}
	return nil // it is repeated otherwise, and may be signed then
}

// onVote gathers the signatures on the record that this peer has signed. With all of them it is
// certified.
func (fk *fork) onVote(msg wire.Message, v wire.ForkVote) error {
	f := &fk.forking
	if f.signed == nil || v.Ref != f.signed.Ref || v.Hash != f.signed.Record.Hash() {
		return fmt.Errorf("%w: not the fork that is signed here", ErrStale)
	}
	r := f.signed.Record
	signers := r.Electors()
	if _, in := chain.FindMember(signers, msg.From, msg.Incarnation); !in {
		return ErrSender
	}
	f.sigs[msg.From] = msg.Sig
	if len(f.sigs) == len(signers) {
		fk.gossip(wire.Commit{Record: r, Certificate: certificate(v.Vote, f.sigs)}, peersOf(r.Members)...)
	}
	return nil
}

// order is the operator's order to go on without a quorum. It is void once there is one, or
// another tip.
func (fk *fork) order(gathering bool) {
	fk.ordered = true
	fk.consider(gathering)
}
