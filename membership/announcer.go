package membership

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// announcer announces this peer's position in the chain, and whether it joins or leaves.
type announcer struct {
	*facts
	*effects
	presence *presence
	model    *model
	own      *own
	roster   *roster

	aliveAt time.Duration // when ALIVE was last announced
	pause   time.Duration // until the next one
	hurry   bool          // there is news of connections
	askedAt time.Duration // when JOIN or LEAVE was last announced
}

// announce gossips ALIVE and, until a record answers, JOIN or LEAVE.
func (an *announcer) announce() {
	if an.aliveDue() {
		an.alive()
	}
	if an.now-an.askedAt < an.cfg.Timing.Alive {
		return
	}
	switch {
	case an.own.leaving && an.member():
		an.gossip(wire.Leave{Since: an.memberSince()}, an.leaveTo()...)
	case an.roster.wantsIn():
		an.gossip(wire.Join{Contributes: an.own.contributes})
	default:
		return
	}
	an.askedAt = an.now
}

// alive announces where this peer stands. A peer that has left announces nothing, since no peer
// waits for it. One that never founds the run announces nothing before it hears of a chain, since
// those that may found it would wait for it to do so.
func (an *announcer) alive() {
	if an.hurry {
		an.pause = 0
	}
	an.aliveAt, an.hurry = an.now, false
	least := an.cfg.Timing.Alive
	an.pause = min(max(least, 2*an.pause), max(least, an.presence.quiet()))
	if an.own.left || an.cfg.NeverFounds && an.chain.Height() == 0 && !an.presence.hearsChain() {
		return
	}
	tip, s := an.chain.Tip(), an.model.state
	a := wire.Alive{
		Branch: an.chain.Branch(), Height: tip.Height, Tip: an.chain.TipHash(), Work: tip.Work,
		Synced: s.known && !s.diverged, Contributes: an.own.contributes && !s.diverged, Steps: an.own.steps,
		Reaches: an.presence.reaches(),
		Uplink:  slot.LinkOf(an.presence.speeds.Uplink), Apart: an.presence.unreachable(),
	}
	for _, p := range a.Reaches {
		a.Links = append(a.Links, an.presence.linkTo(p))
	}
	a.Claims, an.own.claims = an.own.claims, nil
	if a.Synced {
		a.Applied, a.Slot = s.height, s.slot
	}
	an.gossip(a)
}

// leaveTo lists the peers that get LEAVE directly: this peer may go before gossip has reached the
// others.
func (an *announcer) leaveTo() []slot.PeerID {
	return union([]slot.PeerID{an.cfg.Self}, peersOf(an.chain.Electorate()))
}

// memberSince returns the height since which this peer is a member.
func (an *announcer) memberSince() uint64 {
	self, _ := chain.FindMember(an.chain.Members(), an.cfg.Self, an.cfg.Incarnation)
	return self.Since
}

// aliveDue says whether it is time for an ALIVE. News of connections and of strangers are announced
// early, but not each time that a link flaps.
func (an *announcer) aliveDue() bool {
	since := an.now - an.aliveAt
	return since >= an.pause || an.presence.busy != never && since >= an.cfg.Timing.Alive ||
		an.hurry && since >= an.cfg.Timing.Gone/2
}
