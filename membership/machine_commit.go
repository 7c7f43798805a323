package membership

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// onCommit takes a certified record: the successor of the tip, part of a competing branch, or a
// sign that this peer is behind. It does not matter which peer sends it: the certificate does.
func (m *Machine) onCommit(msg wire.Message, c wire.Commit) error {
	if c.ByHash() {
		r, err := m.recordOf(msg, c.Certificate.Vote)
		if err != nil {
			return err
		}
		c.Record = r
	}
	r, next := c.Record, m.chain.Next()
	follows := r.Height == next.Height && r.Prev == next.Prev
	switch {
	case r.Run != m.cfg.Rules.Run:
		return chain.Invalid("a record of run %s", r.Run.Short())
	case follows && m.competing.mayFollow(r) && (m.chain.Pinned() || r.Hash() == m.chain.Pin() ||
		m.path != nil && m.path.Has(r.Height, r.Hash())):
		return m.takeNext(msg, c)
	case m.competing.awaits(msg, c):
		better, err := m.competing.extend(c)
		if better != nil {
			m.switchTo(better, m.chain.CommonHeight(better.chain))
		} else if m.path != nil {
			m.catchup.ask(msg.From)
		}
		return err
	case r.Height > next.Height:
		m.catchup.ask(msg.From)
		return nil
	}
	m.compareSibling(msg, c)
	return fmt.Errorf("%w: a record of another branch, or one that is known", ErrStale)
}

// recordOf returns the record of a COMMIT that names it by its hash: the leader sends it so to the
// peers that have shown that they hold the record. A peer that does not hold it any more, or never
// did, asks the leader, once. If the leader does not answer, it asks others as soon as they show
// that they are further, as for any record that it lacks.
func (m *Machine) recordOf(msg wire.Message, v slot.Vote) (r slot.Record, err error) {
	next := m.chain.Next()
	switch {
	case v.Height > next.Height:
		m.catchup.ask(msg.From)
		return r, ErrStale
	case v.Height != next.Height || v.Prev != next.Prev:
		return r, fmt.Errorf("%w: the COMMIT of another branch, or of a record that is known", ErrStale)
	}
	if r, ok := m.pledges.signed(v.Hash); ok {
		return r, nil
	}
	if !m.open.leads(msg, v.Ballot) {
		return r, ErrSender
	}
	m.catchup.ask(msg.From)
	return r, fmt.Errorf("%w: the COMMIT of record %s, which this peer asks for", ErrLacks, v.Hash.Short())
}

// compareSibling looks at another record that a member shows in the place of one of the own chain.
// It moves nobody: whoever has adopted it announces that. But it may convict those who signed both.
func (m *Machine) compareSibling(msg wire.Message, c wire.Commit) {
	h := c.Record.Height
	if m.evidence.checkMember(msg) != nil || h == 0 || !m.chain.Holds(h) ||
		m.chain.Hash(h-1) != c.Record.Prev || h > 1 && !m.chain.Holds(h-1) ||
		c.Certificate.Hash != c.Record.Hash() || m.chain.Has(h, c.Certificate.Hash) {
		return
	}
	m.evidence.compare(m.chain.Commit(h), c, m.chain.At(h-1).Members)
}

// takeNext verifies and adopts the successor of the tip.
func (m *Machine) takeNext(msg wire.Message, c wire.Commit) error {
	r, before := c.Record, m.chain.Members()
	spread := m.history.spread()
	if err := m.chain.Extend(c, m.cfg.Verify); err != nil {
		m.doubts.add(msg.From, ReasonBadChain, "its chain does not verify: "+err.Error())
		return err
	}
	if r.Kind == slot.Step {
		m.history.noteSpread(spread)
		m.history.noteReduction(r)
		m.history.noteStep()
		m.history.slotTook, m.history.slotAt = min(m.now, m.now-m.history.slotAt), m.now
	}
	m.passOn(msg.From, before, c)
	m.adopted(c, before)
	if n := &m.catchup.need; n.ends(c) {
		m.catchup.ask(msg.From)
	} else if n.newest == r.Height {
		n.at = m.now
	}
	return nil
}

// adopted turns to the next height after the chain has grown by c. I5: the certificate is on disk
// before anything is applied.
func (m *Machine) adopted(c wire.Commit, before []slot.Member) {
	m.persist(wire.EntryCommit(c))
	if m.chain.Pinned() {
		m.path = nil
	}
	m.clones.checkOwnSignatures(c, m.chain, m.pledges.find(c.Record), m.own.offerSeq)
	m.news.reportAdopted(c, before)
	m.countVotes(c, before)
	m.statements.noteIdle(before, m.history.slotTook)
	m.pledges.leave(c.Record.Kind)
	if c.Record.Kind == slot.Fork {
		m.competing.forgetJudged()
	}
	m.presence.meetMembers(before)
	m.openNext()
	m.model.compareState()
	m.own.spendOffer()
	if c.Record.Height == 1 {
		m.announcer.pause = 0 // other peers wait for news that there is a run
	}
	m.replayEarly()
}

// countVotes notes which electors took part in a decision. If this peer has been in no certificate
// for some time, it shows its vote to all electors. The record is certified, and the certificate on
// disk, so the vote binds this peer to nothing new; but it must not contradict an earlier promise
// or vote.
func (m *Machine) countVotes(c wire.Commit, before []slot.Member) {
	own, v := m.pledges.find(c.Record), c.Certificate.Vote
	late := m.turnout.decided(c, before, m.open.leader(v.Ballot), own.Have != nil || own.Vote != nil)
	agrees := v.Ballot >= own.Floor() &&
		(own.Vote == nil || own.Vote.Ballot < v.Ballot || own.Vote.QC.Hash == v.Hash)
	if late && agrees && c.Record.Kind != slot.Fork && len(m.catchup.ahead()) == 0 {
		m.send(wire.Vote{Vote: v}, without(peersOf(m.chain.Electorate()), m.cfg.Self)...)
	}
}

// openNext starts the height above the tip, with what was promised and voted there before, if
// anything was.
func (m *Machine) openNext() {
	d := &openHeight{
		ref:       m.chain.Next(),
		following: following{life: never},
		terms: terms{
			owed: never, began: never, promisedAt: never, promised: map[memberKey]promise{},
			ahead: map[uint32]wire.Message{},
		},
		holding: holding{outcomes: map[slot.Root]bool{}, draftAt: never, fetchedAt: never, accessAt: never},
	}
	d.order = slot.LeaderOrder(m.cfg.Rules.Run, d.ref.Height, m.chain.Electorate())
	m.pledges.openAt(wire.Position{Height: d.ref.Height, Prev: d.ref.Prev})
	if old, tip := m.open, m.chain.Tip(); old != nil && tip.Kind.KeepsSlot() && tip.Height == old.ref.Height &&
		tip.Prev == old.ref.Prev {
		if old.last == nil || !slices.ContainsFunc(old.last.Offers,
			func(o slot.Offer) bool { return m.chain.Access().Removed(o.Peer) }) {
			// the slot is the same: its reduction goes on
			d.last, d.groupReports, d.short, d.progressAt = old.last, old.groupReports, old.short, old.progressAt
		}
	}
	m.motions.verified = slot.Root{}
	m.evidence.openAt()
	m.statements.openAt()
	m.proofs.prune()
	m.fork.forking = newForking(m.pledges.open.Fork)
	d.ballot = m.pledges.open.Floor()
	m.open = d
	m.motions.count()
	if h := m.pledges.open.Have; h != nil {
		m.motions.adoptSigned(h.Record.Decisions)
		m.proofs.noteAll(h.Record.Contributions, h.Proofs)
	}
	m.leader.resumeLead()
}

// passOn passes a record on if the peer before this one in the order sent it. If this peer asked
// for it while it catches up, no peer waits for it to pass it on.
func (m *Machine) passOn(from slot.PeerID, before []slot.Member, c wire.Commit) {
	if c.Record.Kind == slot.Fork || len(before)+len(c.Record.Members) <= directMost {
		return
	}
	all := audience(m.open.leader(c.Certificate.Ballot).Peer, before, c.Record)
	if slices.Contains(passesTo(all, from), m.cfg.Self) {
		m.send(c, passesTo(all, m.cfg.Self)...)
	}
}
