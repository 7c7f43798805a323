package membership

import (
	"fmt"
	"maps"
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
	over  bool          // the last slot is applied here
	since time.Duration // when it was applied
	done  bool
	lacks string // the members that the run ended without
	// since when nobody is heard that holds the last state, which is not here; 0: not so
	away time.Duration
	gone bool // the ending has lasted so long that this peer waits for nobody any more
}

// finish says when this peer may go: it was dropped after it asked to leave, or need not wait for
// that, or the last slot is applied and every peer that it could serve has it too, or has had the
// time. It gives true once, when the run is over.
func (ex *exit) finish(gathering bool) (done bool) {
	if ex.own.leaving && !ex.own.left && (!ex.member() || ex.alone() || ex.handedOver()) {
		ex.own.left = true
		if ex.member() {
			ex.own.farewell = true
			ex.event(Event{
				Kind: EventLeft, Height: ex.chain.Height(), Slot: ex.chain.Tip().Slot, Peer: ex.cfg.Self,
				Detail: "left",
			})
		}
	}
	e := &ex.ending
	if !ex.chain.Ended() || !ex.holdsEnd() {
		ex.missed(gathering)
		return false
	}
	if !e.over {
		e.over, e.since = true, ex.now
	}
	if !e.done && (ex.chain.Closed() && ex.model.atTip() && ex.allApplied() && !ex.awaited() || ex.lingered()) {
		e.done, e.lacks = true, ex.endedWithout()
		ex.event(Event{
			Kind: EventDone, Height: ex.chain.Height(), Slot: ex.chain.Tip().Slot, Root: ex.model.state.root,
			Detail: e.lacks,
		})
		return true
	}
	return false
}

// endedWithout lists the members that a run which ended on a branch has lost: a fork went on
// without them, no record has listed them since, and they may have forked, too. It is empty if no
// member is missing. Of a provisional branch it says that.
func (ex *exit) endedWithout() string {
	if why := ex.whyProvisional(); why != "" {
		return why
	}
	missed := map[slot.PeerID]uint64{} // since which slot
	for h := uint64(1); h <= ex.chain.Height(); h++ {
		if before := ex.chain.At(h - 1); ex.chain.At(h).Kind == slot.Fork {
			for _, e := range before.Members {
				missed[e.Peer] = before.Slot
			}
		}
		for _, e := range ex.chain.At(h).Members {
			delete(missed, e.Peer)
		}
	}
	delete(missed, ex.cfg.Self)
	if len(missed) == 0 {
		return ""
	}
	return fmt.Sprintf("after slot %d this branch of the run went on without members that never came back (%d): "+
		"if they were only cut off, they may hold another model", slices.Min(slices.Collect(maps.Values(missed))),
		len(missed))
}

// lingerMost is for how many Timing.Linger a peer waits at most for the end of the chain to be
// decided, or to come here.
const lingerMost = 4

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

// allApplied says whether every member's ALIVE shows the closing record applied.
func (ex *exit) allApplied() bool {
	return !slices.ContainsFunc(ex.chain.Members(), func(e slot.Member) bool {
		a := ex.presence.known[ofMember(e)]
		return ofMember(e) != ex.self &&
			(a == nil || a.alive == nil || !a.alive.Synced || a.alive.Applied < ex.chain.Height())
	})
}

// awaited says whether a peer is heard that may come for the last state: one that is on this chain
// and not at its end, one that has no chain yet, or one of a branch that this chain outdoes. They
// have Timing.Linger.
func (ex *exit) awaited() bool {
	return len(ex.presence.sorted(func(a *contact) bool {
		if a.memberKey == ex.self || a.alive == nil || !ex.presence.around(a.memberKey) ||
			ex.evidence.evicted(a.memberKey) || ex.doubts.has(a.peer) {
			return false
		}
		comes := ex.presence.along(a) || a.alive.Work <= ex.chain.Tip().Work
		return comes && (!a.alive.Synced || a.alive.Applied < ex.chain.Height())
	})) > 0
}

// holdsEnd says whether the state after the last slot is held.
func (ex *exit) holdsEnd() bool {
	return ex.model.state.known && !ex.model.state.diverged && ex.model.state.slot >= ex.cfg.Rules.LastSlot
}

// missed notes that the run is over and no peer can give its last state: the peers that had it have
// left.
func (ex *exit) missed(gathering bool) {
	e := &ex.ending
	holder := func(a *contact) bool {
		return a.memberKey != ex.self && ex.presence.around(a.memberKey) && a.alive != nil && a.alive.Synced &&
			ex.presence.along(a) &&
			a.alive.Slot >= ex.cfg.Rules.LastSlot
	}
	switch {
	case !ex.chain.Ended() || gathering || len(ex.presence.sorted(holder)) > 0:
		e.away, e.gone = 0, false
	case e.away == 0:
		e.away = ex.now
	case ex.now-e.away >= ex.cfg.Timing.Linger+2*ex.fork.forkPause() && ex.model.state.applying == 0 &&
		!ex.model.state.syncing:
		// what runs may yet end well
		e.gone = true
	}
}
