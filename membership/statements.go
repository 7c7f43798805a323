package membership

import (
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// statements keeps what proves that members may be dropped, and says what this peer knows of them.
// In trust byzantine nobody drops a member on its own word, whoever leads (drops.go). A member that
// is dead, or as good as dead, is dropped once a quorum of the electors has stated that at the open
// position.
//
// Each elector says what it sees itself: which members it has not heard for Timing.Lost, and which
// ones take no part (turnout.go). It does so only while it hears a quorum: who hears none is the
// one that is cut off, and what it would say could still count when the others are back.
//
// In trust crash nothing of this is said, and what is kept counts for nothing.
type statements struct {
	*facts
	*effects
	presence *presence
	evidence *evidence
	quorum   *quorum
	turnout  *turnout

	own     wire.Statement // at the open position; it only grows
	sentAt  time.Duration
	held    map[memberKey]wire.SignedStatement // of the electors, at the open position
	leaves  map[memberKey]wire.SignedLeave     // of members
	retired map[memberKey]wire.SignedRetired   // by the member that is retired
	told    map[memberKey]bool                 // members that an event has reported as mute
	rests   map[slot.PeerID]time.Duration      // until when leaders do not list again who was idle

	twinAt    time.Duration // when another process was last heard under this peer's name
	retiredAt time.Duration // when RETIRED was last announced
	oldSince  time.Duration // since when the tip lists an earlier incarnation of this peer
}

func newStatements(f *facts, e *effects, p *presence, ev *evidence, q *quorum, tu *turnout) *statements {
	return &statements{
		facts: f, effects: e, presence: p, evidence: ev, quorum: q, turnout: tu,
		held:   map[memberKey]wire.SignedStatement{},
		leaves: map[memberKey]wire.SignedLeave{}, retired: map[memberKey]wire.SignedRetired{},
		told: map[memberKey]bool{}, rests: map[slot.PeerID]time.Duration{},
		twinAt: never, retiredAt: never, oldSince: never, sentAt: never,
	}
}

// openAt forgets what was stated about the position before, and about peers that are no members any
// more.
func (st *statements) openAt() {
	st.own, st.sentAt = wire.Statement{}, never
	clear(st.held)
	for w := range st.leaves {
		if _, listed := st.member(w); !listed {
			delete(st.leaves, w)
		}
	}
	for w := range st.retired {
		if _, listed := st.member(w); !listed {
			delete(st.retired, w)
		}
	}
}

func (st *statements) members() []slot.Member { return st.chain.Members() }

func (st *statements) member(w memberKey) (slot.Member, bool) {
	return chain.FindMember(st.members(), w.peer, w.inc)
}

// repeat makes this peer's statement, and announces it when it says more, and again while it
// stands.
func (st *statements) repeat() {
	if !st.cfg.Rules.Byzantine || st.chain.Height() == 0 || st.chain.Ended() {
		return
	}
	st.retire()
	if !st.elector() || !st.quorum.heard() {
		return
	}
	more := st.look()
	if st.own.Unheard != nil && (more || st.now-st.sentAt >= max(st.cfg.Timing.Alive, st.presence.quiet())) {
		st.sentAt = st.now
		st.gossip(st.own, st.cfg.Self)
	}
}

// look adds to the statement what this peer sees now. It says whether that is news.
func (st *statements) look() (more bool) {
	members := st.members()
	next := wire.Statement{
		Position: wire.Position{Height: st.chain.Next().Height, Prev: st.chain.Next().Prev},
		Unheard:  slot.NewBitmap(len(members)), Mute: slot.NewBitmap(len(members)),
	}
	copy(next.Unheard, st.own.Unheard)
	copy(next.Mute, st.own.Mute)
	for i, m := range members {
		w := ofMember(m)
		if w == st.self || next.Unheard.Has(i) || next.Mute.Has(i) {
			continue
		}
		why, fault := st.turnout.fault(w)
		switch {
		case !st.presence.heardLately(w):
			next.Unheard.Set(i)
			more = true
		case fault != "":
			next.Mute.Set(i)
			more = true
			st.tell(w, why, fault)
		default:
			delete(st.told, w)
		}
	}
	if more {
		st.own = next
	}
	return more
}

// tell reports a mute member, once until it takes part again.
func (st *statements) tell(w memberKey, why Reason, fault string) {
	if st.told[w] {
		return
	}
	st.told[w] = true
	st.reportPeer(EventSuspected, why, w.peer, fault)
}

// onStatement keeps an elector's statement, in the place of one that says less. It is about the
// open position (atPlace).
func (st *statements) onStatement(msg wire.Message, s wire.Statement) error {
	if err := st.checkElector(msg); err != nil {
		return err
	}
	n := len(st.members())
	if !s.Unheard.Fits(n) || !s.Mute.Fits(n) {
		return chain.Invalid("a statement that is not about the %d members", n)
	}
	w := memberKey{msg.From, msg.Incarnation}
	if had, ok := st.held[w]; ok && !saysMore(s, had, n) {
		return ErrStale
	}
	st.held[w] = wire.SignedStatement{
		Peer: msg.From, Incarnation: msg.Incarnation, Unheard: s.Unheard, Mute: s.Mute, Sig: msg.Sig,
	}
	return nil
}

// saysMore says whether a statement names all that another one does, and more.
func saysMore(s wire.Statement, had wire.SignedStatement, n int) bool {
	for i := range n {
		if had.Unheard.Has(i) && !s.Unheard.Has(i) || had.Mute.Has(i) && !s.Mute.Has(i) {
			return false
		}
	}
	return s.Unheard.Count()+s.Mute.Count() > had.Unheard.Count()+had.Mute.Count()
}

// onLeave keeps a member's LEAVE as proof.
func (st *statements) onLeave(msg wire.Message, l wire.Leave) {
	w := memberKey{msg.From, msg.Incarnation}
	if m, listed := st.member(w); listed && m.Since == l.Since {
		st.leaves[w] = wire.SignedLeave{Peer: msg.From, Incarnation: msg.Incarnation, Leave: l, Sig: msg.Sig}
	}
}

// onRetired keeps the proof that the vote log of a member is gone. It is for the member's own key
// to say, in another incarnation.
func (st *statements) onRetired(msg wire.Message, x wire.Retired) error {
	w := memberKey{msg.From, x.Old}
	if _, listed := st.member(w); !listed {
		return ErrStale
	}
	if msg.Incarnation == x.Old {
		return ErrSender
	}
	if _, had := st.retired[w]; !had {
		st.retired[w] = wire.SignedRetired{Peer: msg.From, Incarnation: msg.Incarnation, Retired: x, Sig: msg.Sig}
	}
	return nil
}

// noteTwin notes that another process speaks under this peer's name: its incarnation lives.
func (st *statements) noteTwin(msg wire.Message) {
	if msg.From == st.cfg.Self && msg.Incarnation != st.cfg.Incarnation {
		st.twinAt = st.now
	}
}

// retire announces that the incarnation of this peer that the tip lists is gone with its vote log,
// so that it does not cost the run a vote for longer than needed. It waits for Timing.Lost: another
// process that uses the same key would be heard by then.
func (st *statements) retire() {
	i := slot.Find(st.members(), st.cfg.Self)
	if i < 0 || ofMember(st.members()[i]) == st.self {
		st.oldSince = never
		return
	}
	if st.oldSince == never {
		st.oldSince = st.now
	}
	if st.now-max(st.oldSince, st.twinAt) >= st.cfg.Timing.Lost && st.now-st.retiredAt >= st.cfg.Timing.Alive {
		st.retiredAt = st.now
		st.gossip(wire.Retired{Old: st.members()[i].Incarnation})
	}
}

// stated says whether the statements that are held here prove that one of the members of the record
// before may be dropped, or, of an idle one, that its entry may be deleted.
func (st *statements) stated(members []slot.Member, m slot.Member, idle bool) bool {
	electors := slot.Record{Members: members}.Electors()
	return states(st.cfg.Rules, electors, members, m, st.said(electors), idle)
}

// said lists the statements of some electors that are held.
func (st *statements) said(electors []slot.Member) (said []wire.SignedStatement) {
	for _, e := range electors {
		if s, ok := st.held[ofMember(e)]; ok {
			said = append(said, s)
		}
	}
	return said
}

// noteIdle keeps this peer from listing those members of the record before again that were put out
// as idle, for as long as three slots take, and six from the second time on. It goes by the clock:
// there may be no slot without them.
func (st *statements) noteIdle(before []slot.Member, slotTook time.Duration) {
	for _, m := range before {
		if _, stays := st.member(ofMember(m)); !stays && st.stated(before, m, true) {
			_, again := st.rests[m.Peer]
			st.rests[m.Peer] = st.now + 3*slotTook<<btoi(again)
		}
	}
}

// charge says, in plain words, what the electors have stated of this peer when a record dropped it;
// "" if nothing is known but that it is gone. before are the members of the record before.
func (st *statements) charge(before []slot.Member) string {
	i := slot.Find(before, st.cfg.Self)
	for _, s := range st.held {
		if i >= 0 && s.Mute.Has(i) {
			return fmt.Sprintf("has not voted for %d heights, or led without a record, as others state", muteHeights)
		}
	}
	return ""
}

// mayDrop says whether a member is lost for all that this peer sees itself, and can be dropped with
// what is held here. What an outage has led others to state is not used once it is over.
func (st *statements) mayDrop(m slot.Member) bool {
	w := ofMember(m)
	if _, retired := st.retired[w]; retired || st.evidence.evicted(w) {
		return true
	}
	why, _ := st.turnout.fault(w)
	return w != st.self && (!st.presence.heardLately(w) || why != "") && st.stated(st.members(), m, false)
}

// hasLeft says whether a member's LEAVE is held here.
func (st *statements) hasLeft(m slot.Member) bool { _, ok := st.leaves[ofMember(m)]; return ok }

// check says whether what is attached to a draft proves the drops of its record, and takes in the
// evidence.
func (st *statements) check(r slot.Record, a wire.Attachments) error {
	if !st.cfg.Rules.Byzantine {
		return nil
	}
	if err := checkDrops(st.cfg.Rules, st.chain.Electorate(), st.members(), r, a); err != nil {
		return err
	}
	if err := checkEntries(st.chain, r, a); err != nil {
		return err
	}
	for _, e := range a.Evidence {
		if contradicts(e, st.cfg.Rules.CheckProof) == nil {
			st.evidence.evict(e, false)
		}
	}
	return nil
}

// carries says whether a draft has room for the evidence against a member that it drops, and takes
// it. The others' turn is with the next record.
func (st *statements) carries(m slot.Member, room *int) bool {
	e, ok := st.evidence.find(ofMember(m))
	if n := len(e.Second.Body); ok {
		if n > *room {
			return false
		}
		*room -= n
	}
	return true
}

// attach collects what proves the drops of a record.
func (st *statements) attach(r slot.Record) (a wire.Attachments) {
	for _, m := range st.members() {
		if _, stays := chain.FindMember(r.Members, m.Peer, m.Incarnation); stays {
			continue
		}
		w := ofMember(m)
		if e, ok := st.evidence.find(w); ok {
			a.Evidence = append(a.Evidence, e)
		} else if l, ok := st.leaves[w]; ok {
			a.Leaves = append(a.Leaves, l)
		} else if x, ok := st.retired[w]; ok {
			a.Retired = append(a.Retired, x)
		} else {
			a.Statements = st.said(st.chain.Electorate())
		}
	}
	return a
}
