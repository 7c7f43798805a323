package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// exit says when this peer may go.
type exit struct {
	*facts
	*effects
	presence *presence
	evidence *evidence
	quorum   *quorum
	model    *model
	own      *own
	roster   *roster
	doubts   *doubts
	catchup  *catchup
	fork     *fork
	ending
}

// ending is this peer's way out of a run that is over.
type ending struct {
	over         bool          // the last slot is applied here
	since        time.Duration // when it was applied
	final        bool          // its model is certified, or as certain as it can be
	done         bool
	branchReason string // why its model may not be the run's
	// since when nobody is heard that holds the last state, which is not here; 0: not so
	holderLostAt time.Duration
	missed       bool // the ending has lasted so long that this peer waits for nobody any more
}

// how returns how the chain ends.
func (ex *exit) how() Ending {
	if !ex.ending.final {
		return EndsNot
	}
	if _, provisional := ex.chain.Provisional(); provisional {
		return EndsProvisional
	}
	return EndsAsRun
}

// finish says when this peer may go: it was dropped after it asked to leave, or need not wait for
// that, or the last slot is applied and every peer that it could serve has it too, or has had the
// time. It gives true when others should know where this peer stands.
func (ex *exit) finish(gathering bool) (news bool) {
	ex.leave()
	e := &ex.ending
	if !ex.chain.Ended() || !ex.holdsEnd() {
		ex.watchHolders(gathering)
		return false
	}
	if !e.over {
		e.over, e.since = true, ex.now
	}
	unserved := ex.unserved()
	if news = !e.final && (ex.closed() || ex.lingered()); news {
		e.final = true
		ex.tell(EventFinal, ex.finalText(unserved))
	}
	switch how := ex.how(); {
	case e.done || how == EndsNot:
	case ex.lingered(), how == EndsAsRun && ex.closed() && len(unserved) == 0:
		e.done, e.branchReason = true, ex.whyProvisional()
		ex.tell(EventDone, e.branchReason)
		return true
	}
	return news
}

func (ex *exit) tell(kind EventKind, detail string) {
	ex.event(Event{
		Kind: kind, Height: ex.chain.Height(), Slot: ex.chain.Tip().Slot, Root: ex.model.state.root, Ending: ex.how(),
		Detail: detail,
	})
}

// leave notes that this peer, which asked to leave, may go.
func (ex *exit) leave() {
	if !ex.own.leaving || ex.own.left || ex.member() && !ex.alone() && !ex.handedOver() {
		return
	}
	ex.own.left = true
	if ex.member() {
		ex.own.farewell = true
		ex.reportPeer(EventLeft, ReasonLeft, ex.cfg.Self, "")
	}
}

// closed says whether a record certifies the state after the last slot, and that is held here.
func (ex *exit) closed() bool { return ex.chain.Closed() && ex.model.atTip() }

// unserved lists the peers that this one serves the last state to: those that are heard and may
// come for it, and the members of the newest records, which may have been lost for a while. A peer
// that is no member at the end has come late itself, and waits for nobody whom it does not hear.
func (ex *exit) unserved() []slot.PeerID {
	ps := ex.awaited()
	if !ex.member() {
		return ps
	}
	shown := func(p slot.PeerID) bool {
		known := ex.presence.sorted(func(a *contact) bool { return a.peer == p })
		return slices.ContainsFunc(known, ex.presence.showsTip)
	}
	for _, c := range ex.chain.Commits() { // the newest ones
		for _, e := range c.Record.Members {
			member := slot.Find(ex.chain.Members(), e.Peer) >= 0
			if e.Peer != ex.cfg.Self && (member || !ex.isGone(e)) && !slices.Contains(ps, e.Peer) && !shown(e.Peer) {
				ps = append(ps, e.Peer)
			}
		}
	}
	slices.Sort(ps)
	return ps
}

// isGone says whether a member that is none any more has gone by its own wish, or was put out.
func (ex *exit) isGone(e slot.Member) bool {
	a := ex.presence.known[ofMember(e)]
	return a != nil && a.leaving || ex.evidence.evicted(ofMember(e)) || ex.chain.Access().Removed(e.Peer)
}

// finalText says what this peer has and for whom it stays.
func (ex *exit) finalText(unserved []slot.PeerID) string {
	text := fmt.Sprintf("the model of slot %d, the last one, is final", ex.chain.Tip().Slot)
	if ex.how() == EndsProvisional {
		return fmt.Sprintf("the model of slot %d, the last one, is served for %v, and then this peer ends with it. It "+
			"is %s", ex.chain.Tip().Slot, ex.remaining(), ex.whyProvisional())
	}
	if len(unserved) == 0 {
		return text
	}
	return fmt.Sprintf("%s; serving it to %s until they have it, for %v at most", text, shortIDs(unserved),
		ex.remaining())
}

// remaining is for how long this peer stays at most, for peers that do not come.
func (ex *exit) remaining() time.Duration {
	return max(0, ex.cfg.Timing.Linger-(ex.now-ex.since)).Round(time.Second)
}

// restart begins to wait for the others anew. In the time in which this peer did not run it served
// nobody, and heard nobody.
func (ex *exit) restart() { ex.since, ex.holderLostAt = ex.now, 0 }

// lingerMost is for how many Timing.Linger a peer waits at most for the end of the chain to be
// decided, or to come here.
const lingerMost = 2

// lingered says whether other peers had enough time. A peer that leaves takes its vote with it: if
// peers went one by one while the closing record is being decided, nobody would ever have it, and
// so no certificate of the last state. So they stay while a quorum is heard that can decide it, and
// while a peer is heard that has more of the chain; but not for ever, since either announcement may
// be false.
func (ex *exit) lingered() bool {
	waited, linger := ex.now-ex.since, ex.cfg.Timing.Linger
	open := !ex.chain.Closed() && ex.quorum.heard() || len(ex.catchup.ahead()) > 0
	return waited >= linger && !open || waited >= lingerMost*linger
}

// alone says whether no record can drop this peer: no quorum is heard, and of the members that are
// heard none stays. Or it is the last member, and no peer takes its place.
func (ex *exit) alone() bool {
	stays := func(e slot.Member) bool {
		a := ex.presence.known[ofMember(e)]
		return ofMember(e) != ex.self && ex.presence.around(ofMember(e)) && (a == nil || !a.leaving)
	}
	if slices.ContainsFunc(ex.chain.Members(), stays) {
		return false
	}
	return !ex.quorum.heard() || (ex.own.mine == nil || ex.chain.LacksPeers()) && len(ex.roster.newcomers()) == 0
}

// handedOver says whether a peer that leaves can go before a record drops it. In trust byzantine
// its LEAVE is all that the record needs, and it waits for the next step. It stays where those who
// stay would be no quorum with one more lost, but not for longer than it would take them to drop it
// without a LEAVE; and until its offer is recorded, but not for longer than lastOffer.
func (ex *exit) handedOver() bool {
	waited := ex.now - ex.own.leavingAt
	if !ex.cfg.Rules.Byzantine || waited < ex.cfg.Timing.Retry {
		return false
	}
	electors := ex.chain.Electorate()
	stays := chain.CountMembers(electors, func(e slot.Member) bool {
		a := ex.presence.known[ofMember(e)]
		return ofMember(e) != ex.self && ex.presence.around(ofMember(e)) && (a == nil || !a.leaving)
	})
	spare := !ex.elector() || stays > ex.cfg.Rules.Votes(len(electors)) || waited >= ex.cfg.Timing.Lost
	recorded := ex.own.mine == nil || ex.chain.LacksPeers() || waited >= max(lastOffer, ex.cfg.Timing.Lost)
	return spare && recorded
}

// lastOffer is for how long a peer that leaves waits at most for its last contribution to count.
const lastOffer = 30 * time.Second

// awaited lists the peers that are heard and may come for the last state: one that is on this chain
// and not at its end, one that has no chain yet, or one of a branch that this chain outdoes. One
// that ends the run outdoes all.
func (ex *exit) awaited() []slot.PeerID {
	var ps []slot.PeerID
	for _, a := range ex.presence.sorted(func(a *contact) bool {
		if a.memberKey == ex.self || a.alive == nil || !ex.presence.around(a.memberKey) ||
			ex.evidence.evicted(a.memberKey) || ex.doubts.has(a.peer) {
			return false
		}
		comes := ex.presence.along(a) || ex.chain.EndsTheRun() || a.alive.Work <= ex.chain.Tip().Work
		return comes && !ex.presence.showsTip(a)
	}) {
		ps = append(ps, a.peer)
	}
	return slices.Compact(ps)
}

// holdsEnd says whether the state after the last slot is held.
func (ex *exit) holdsEnd() bool {
	return ex.model.state.known && !ex.model.state.diverged && ex.model.state.slot >= ex.cfg.Rules.LastSlot
}

// watchHolders notes that the run is over and no peer can give its last state: the peers that had
// it have left.
func (ex *exit) watchHolders(gathering bool) {
	e := &ex.ending
	holder := func(a *contact) bool {
		return a.memberKey != ex.self && ex.presence.around(a.memberKey) && a.alive != nil && a.alive.Synced &&
			ex.presence.along(a) &&
			a.alive.Slot >= ex.cfg.Rules.LastSlot
	}
	switch {
	case !ex.chain.Ended() || gathering || len(ex.presence.sorted(holder)) > 0:
		e.holderLostAt, e.missed = 0, false
	case e.holderLostAt == 0:
		e.holderLostAt = ex.now
	case ex.now-e.holderLostAt >= 2*ex.fork.forkPause()+4*ex.cfg.Timing.Lost && ex.model.state.applying == 0 &&
		!ex.model.state.syncing:
		// what runs may yet end well
		e.missed = true
	}
}
