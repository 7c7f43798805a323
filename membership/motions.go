package membership

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Motions (slot.Motion) are what the members' operators want done about the membership. A motion is
// gossiped and repeated while it stands. Once a quorum of the members has made the same one, the
// leader puts the signatures into an access record, which anybody can check without having heard
// any of them. Between the two, all peers that know of the quorum treat the peer to be removed as
// removed already: it is not listed, its offers are not taken, and it does not lead.
//
// In a private run a removal also changes the admission secret, so the leader's next secret
// (ReportKey) has to be on the disks of a quorum of the new members before the record is proposed:
// like an outcome, it is held first (WorkHold) and decided then.

// motions keeps what operators want, and finds out what a quorum wants.
type motions struct {
	*facts
	*effects
	presence *presence
	quorum   *quorum
	motionState
	verified slot.Root // hash of the record whose motions were verified last
}

// motionState keeps what is wanted, and by which members.
type motionState struct {
	own     []slot.Motion                 // motions of this peer's operator; From is not set
	adopted map[slot.PeerID]adoptedMotion // by the peer that they are about
	sent    map[slot.PeerID]slot.Motion
	sentAt  time.Duration
	// the newest, by their maker and the peer that they are about
	held      map[memberKey]map[slot.PeerID]heldMotion
	ready     []slot.Decision      // decisions that a quorum wants, in order
	condemned map[slot.PeerID]bool // peers that a quorum wants removed
	// the secret that this peer would bring in force as the leader; zero: none
	key        slot.Root
	pauseAt    time.Duration // when a draft of an access record was given up
	told       *slot.Root    // access.newest that the worker was told of
	notifiedAt time.Duration
}

type heldMotion struct {
	motion slot.Motion
	sig    []byte
}

// adoptedMotion is a motion of a peer that this one follows.
type adoptedMotion struct {
	slot.Motion // From is not set
	of          slot.PeerID
}

func newMotionState() motionState {
	return motionState{
		adopted: map[slot.PeerID]adoptedMotion{}, sent: map[slot.PeerID]slot.Motion{}, sentAt: never,
		held: map[memberKey]map[slot.PeerID]heldMotion{}, pauseAt: never, notifiedAt: never,
	}
}

// give replaces what this peer's operator wants. Motions that the operator does not want any more
// are taken back.
func (mo *motions) give(r ReportMotions) {
	before := mo.own
	mo.own = slices.Clone(r.Motions)
	for _, old := range before {
		if !slices.ContainsFunc(mo.wanted(), func(o slot.Motion) bool { return o.Peer == old.Peer }) {
			mo.withdraw(old)
		}
	}
	mo.sendAll()
}

// withdraw takes a motion back: it makes the opposite one, in the same turn. A rotation cannot be
// taken back, and it harms nobody.
func (mo *motions) withdraw(o slot.Motion) {
	back := map[slot.Action]slot.Action{slot.Remove: slot.Readmit, slot.Readmit: slot.Remove}[o.Action]
	if sent, was := mo.sent[o.Peer]; was && back != 0 && sent.Action == o.Action && sent.Turn == o.Turn {
		mo.sendOne(slot.Motion{Action: back, Peer: o.Peer, Turn: o.Turn})
	}
}

// repeatWithdrawals repeats withdrawals for as long as the motion could still count at peers that
// have not received them.
func (mo *motions) repeatWithdrawals() {
	a := mo.chain.Access()
	for _, p := range slices.Sorted(maps.Keys(mo.sent)) {
		switch o := mo.sent[p]; {
		case o.Turn != a.Turn(p) || mo.chain.Height() >= o.From+slot.MotionSpan:
			delete(mo.sent, p)
		case !a.CanDecide(o.Action, p) && mo.elector():
			mo.gossip(wire.Motion{Motion: o}, mo.cfg.Self)
		}
	}
}

// wanted returns what this peer asks for: its operator's motions, then those of peers that it
// follows on other matters.
func (mo *motions) wanted() []slot.Motion {
	out := slices.Clone(mo.own)
	for _, p := range slices.Sorted(maps.Keys(mo.adopted)) {
		if len(out) == slot.MaxDecisions { // others keep no more
			break
		}
		if o := mo.adopted[p].Motion; !slices.ContainsFunc(mo.own,
			func(w slot.Motion) bool { return w.Peer == p && w.Turn == o.Turn }) {
			out = append(out, o)
		}
	}
	return out
}

// repeat announces again what is wanted and not yet decided, because leaders change and forget, and
// newcomers have not received it.
func (mo *motions) repeat() {
	if mo.now-mo.sentAt >= repeatAfter*mo.cfg.Timing.Alive {
		mo.sendAll()
		mo.repeatWithdrawals()
	}
}

func (mo *motions) sendAll() {
	mo.sentAt = mo.now
	if !mo.elector() || mo.chain.Ended() {
		return
	}
	for _, o := range mo.wanted() {
		if o.Turn == mo.chain.Access().Turn(o.Peer) && mo.chain.Access().CanDecide(o.Action, o.Peer) {
			mo.sendOne(o)
		}
	}
}

// sendOne announces a motion. It is signed anew before it gets too old to count.
func (mo *motions) sendOne(o slot.Motion) {
	sent, was := mo.sent[o.Peer]
	o.From = sent.From
	switch {
	case !was:
		o.From = mo.chain.Height()
	case sent != o: // it replaces the earlier motion, whichever of the two arrives first
		o.From = max(mo.chain.Height(), sent.From+1)
	case mo.chain.Height() >= sent.From+slot.MotionSpan/2:
		o.From = mo.chain.Height()
	}
	mo.sent[o.Peer] = o
	mo.gossip(wire.Motion{Motion: o}, mo.cfg.Self)
}

// onMotion keeps a member's motion. The opposite of a motion that could be decided takes that one
// back, and is kept in its place, because the earlier one may still arrive on other paths.
func (mo *motions) onMotion(msg wire.Message, o slot.Motion) error {
	if err := mo.checkElector(msg); err != nil {
		return err
	}
	by, a := memberKey{msg.From, msg.Incarnation}, mo.chain.Access()
	held := mo.held[by]
	before, had := held[o.Peer]
	switch {
	case o.Turn != a.Turn(o.Peer) || o.From < mo.chain.Height() && !o.CountsAt(mo.chain.Height()+1) || had &&
		o.From < before.motion.From:
		return ErrStale
	case o.From > mo.chain.Height()+slot.MotionSpan || o.Action == slot.Rotate && !mo.chain.Rules().Private:
		return chain.Invalid("an order to %s from height %d", o.Action, o.From)
	case had && before.motion == o:
		return nil
	case !a.CanDecide(o.Action, o.Peer) && !had:
		return ErrStale
	case !had && len(held) >= slot.MaxDecisions:
		return chain.Invalid("more than %d orders at a time", slot.MaxDecisions)
	case held == nil:
		held = map[slot.PeerID]heldMotion{}
		mo.held[by] = held
	}
	held[o.Peer] = heldMotion{o, slices.Clone(msg.Sig)}
	mo.count()
	if !had {
		mo.reportMotion(msg.From, o)
	}
	mo.adopt(msg.From, o)
	return nil
}

// adopt makes the motion of a peer that this one follows its own, except one against itself. When
// that peer takes a motion back, this one does, too.
func (mo *motions) adopt(by slot.PeerID, o slot.Motion) {
	all := mo.adopted
	had, was := all[o.Peer]
	o.From = 0
	switch {
	case by == mo.cfg.Self || o.Peer == mo.cfg.Self || !slices.Contains(mo.cfg.Follow, by):
	case mo.chain.Access().CanDecide(o.Action, o.Peer):
		if _, known := all[o.Peer]; known || len(all) < slot.MaxDecisions {
			all[o.Peer] = adoptedMotion{o, by}
		}
		if had.Motion != o {
			mo.sendAll()
		}
	case was && had.of == by:
		delete(all, o.Peer)
		mo.withdraw(had.Motion)
	}
}

// adoptSigned takes in the motions that a leader shows in a draft or proposal, verified: a peer
// that has the next secret knows which peers must not get it.
func (mo *motions) adoptSigned(ds []slot.Decision) {
	for _, d := range ds {
		for _, s := range d.Motions {
			e := mo.chain.Electorate()[slot.Find(mo.chain.Electorate(), s.Peer)]
			held := mo.held[ofMember(e)]
			if held == nil {
				held = map[slot.PeerID]heldMotion{}
				mo.held[ofMember(e)] = held
			}
			if h, had := held[d.Peer]; !had || h.motion.From < s.From {
				held[d.Peer] = heldMotion{d.Motion(s.From), s.Sig}
			}
		}
	}
	if len(ds) > 0 {
		mo.count()
	}
}

// count finds out what a quorum of the electors wants, after a motion has come, the chain has
// grown, or somebody may have come or gone.
func (mo *motions) count() {
	o, a := &mo.motionState, mo.chain.Access()
	o.own = slices.DeleteFunc(o.own, func(w slot.Motion) bool { return w.Turn < a.Turn(w.Peer) })
	maps.DeleteFunc(o.adopted, func(p slot.PeerID, w adoptedMotion) bool { return w.Turn != a.Turn(p) })
	tally := map[slot.Motion][]slot.SignedMotion{}
	for by, held := range o.held {
		if _, elects := chain.FindMember(mo.chain.Electorate(), by.peer, by.inc); !elects {
			delete(o.held, by)
			continue
		}
		for p, h := range held {
			switch {
			case h.motion.Turn != a.Turn(p) || h.motion.From+slot.MotionSpan <= mo.chain.Height():
				delete(held, p)
			case a.CanDecide(h.motion.Action, p) && h.motion.CountsAt(mo.chain.Height()+1):
				k := h.motion
				k.From = 0
				tally[k] = append(tally[k], slot.SignedMotion{Peer: by.peer, From: h.motion.From, Sig: h.sig})
			}
		}
	}
	o.ready, o.condemned = nil, nil
	for k, signed := range tally {
		if d, ok := mo.decisionOf(k, signed); ok {
			o.ready = append(o.ready, d)
		}
	}
	slices.SortFunc(o.ready, slot.Decision.Compare)
	o.ready = mo.spareOne(o.ready[:min(len(o.ready), slot.MaxDecisions)])
	for _, d := range o.ready {
		if d.Action == slot.Remove {
			if o.condemned == nil {
				o.condemned = map[slot.PeerID]bool{}
			}
			o.condemned[d.Peer] = true
		}
	}
}

// recount counts again when other members are heard, because spareOne depends on that.
func (mo *motions) recount() {
	if len(mo.held) > 0 {
		mo.count()
	}
}

// spareOne leaves out the removal of the senior where all members are to be removed, or all that
// are heard and are enough to decide: a run is not ended so, and somebody must lead the record.
func (mo *motions) spareOne(ds []slot.Decision) []slot.Decision {
	removes := func(p slot.PeerID) bool {
		return slices.ContainsFunc(ds, func(d slot.Decision) bool { return d.Action == slot.Remove && d.Peer == p })
	}
	members := mo.chain.Electorate()
	if mo.quorum.heard() {
		members = slices.DeleteFunc(slices.Clone(members), func(e slot.Member) bool { return !mo.quorum.present(e) })
	}
	if len(members) == 0 || slices.ContainsFunc(members, func(e slot.Member) bool { return !removes(e.Peer) }) {
		return ds
	}
	senior := slot.Senior(members).Peer
	return slices.DeleteFunc(ds, func(d slot.Decision) bool { return d.Action == slot.Remove && d.Peer == senior })
}

// forget drops the motions made on a chain that is given up, because its heights mean nothing on
// another one. Motions that still stand are announced again.
func (o *motionState) forget() {
	clear(o.sent)
	clear(o.held)
	o.sentAt = never
}

// decisionOf returns the decision that motions make, with no more signatures than it takes. It
// returns false if they are too few.
func (mo *motions) decisionOf(k slot.Motion, signed []slot.SignedMotion) (slot.Decision, bool) {
	electors := mo.chain.Deciders(k.Peer)
	senior := slot.Senior(electors).Peer
	signed = slices.DeleteFunc(signed, func(m slot.SignedMotion) bool { return slot.Find(electors, m.Peer) < 0 })
	slices.SortFunc(signed, func(a, b slot.SignedMotion) int {
		return cmp.Or(btoi(b.Peer == senior)-btoi(a.Peer == senior), cmpPeer(a.Peer, b.Peer))
	})
	votes := mo.cfg.Rules.Votes(len(electors)) // or one less, with the senior
	for n := votes - 1; n <= min(votes, len(signed)); n++ {
		enough := slices.SortedFunc(slices.Values(signed[:n]),
			func(a, b slot.SignedMotion) int { return cmpPeer(a.Peer, b.Peer) })
		if mo.cfg.Rules.Quorum(electors, func(e slot.Member) bool { return orderedBy(enough, e.Peer) }) {
			return slot.Decision{Action: k.Action, Peer: k.Peer, Turn: k.Turn, Motions: enough}, true
		}
	}
	return slot.Decision{}, false
}

// orderedBy says whether motions have one of a peer.
func orderedBy(motions []slot.SignedMotion, p slot.PeerID) bool {
	return slices.ContainsFunc(motions, func(m slot.SignedMotion) bool { return m.Peer == p })
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// barred says whether a peer may not be a member any more: it is removed, or a quorum wants it to
// be.
func (mo *motions) barred(p slot.PeerID) bool {
	return mo.chain.Access().Removed(p) || mo.condemned[p]
}

// reportMotion reports what a member wants, and how many members want it by now.
func (mo *motions) reportMotion(by slot.PeerID, o slot.Motion) {
	n := 0
	for _, held := range mo.held {
		if h, ok := held[o.Peer]; ok && h.motion.Action == o.Action {
			n++
		}
	}
	mo.event(Event{
		Kind: EventMotion, Height: mo.chain.Height(), Slot: mo.chain.Tip().Slot, Peer: by,
		Detail: fmt.Sprintf("%s, as %d of %d members do by now", wishText(o.Action, o.Peer), n,
			len(mo.chain.Electorate())),
	})
}

func wishText(a slot.Action, p slot.PeerID) string {
	if a == slot.Rotate {
		return "wants the admission secret to be changed"
	}
	return fmt.Sprintf("wants to %s %s", a, p)
}
