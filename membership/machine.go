package membership

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Machine is one peer's side of the slot ledger, as a pure function of its inputs: Step, Report and
// Tick put in, Ready takes out. It reads no clock, draws no random numbers and does no I/O, except
// that its chain reads old records from disk; time is the caller's argument. It is not safe for
// concurrent use.
//
// Its parts own their state. Each is given the facts, which it only reads, the effects, which it
// only writes, and the parts that are listed before it; none knows a part that comes after it.
// What takes several parts is done here: a record that is adopted, a switch to another branch.
type Machine struct {
	*facts
	*effects
	*height

	peers
	memberRules
	branches
	decision

	saved    uint64     // the chain is on disk up to this height
	switches uint64     // how often this peer has switched to another branch
	pacing   chain.Pace // of the chain with the tip pacedAt
	pacedAt  slot.Root
}

// NewMachine restores what was saved, on the chain that was resumed with it. It verifies nothing
// again: the store vouches for its bytes. If the node holds a model state it reports it with
// ReportApplied before the first Tick.
func NewMachine(cfg Config, saved wire.Saved, on *chain.Chain) *Machine {
	f := newFacts(cfg, saved.Boot)
	m := assemble(f, &effects{facts: f})
	m.own.offerSeq = saved.OfferSeq
	m.chain = on
	next := m.chain.Next()
	m.pledges.restore(saved, wire.Position{Height: next.Height, Prev: next.Prev})
	m.founder.founding = newFounding(saved.Fork)
	m.presence.meetMembers(nil)
	m.turnout.restart()
	m.openNext()
	m.news.listed = m.member()
	m.news.wasMember = m.news.listed
	_, m.news.provisional = m.chain.Provisional()
	return m
}

// Step takes a peer's message. An error says that the message was refused: then it changed nothing
// but that its sender is alive.
func (m *Machine) Step(now time.Duration, msg wire.Message) error {
	m.now = max(m.now, now)
	m.announcer.hurry = m.presence.heard(msg) || m.announcer.hurry
	if err := m.receive(msg); err != nil {
		return err
	}
	m.settle()
	return nil
}

// Report takes a report of the worker or the node.
func (m *Machine) Report(now time.Duration, r Report) {
	m.now = max(m.now, now)
	m.presence.watchHearing()
	m.handle(r)
	m.settle()
}

// Tick lets time pass. Call it at least every Timing.Beat/2, and every Timing.Gone/2 if that is
// set.
func (m *Machine) Tick(now time.Duration) {
	m.now = max(m.now, now)
	// What is seen of other peers comes first: all that follows asks which of them are reached.
	m.presence.watchWork()
	m.presence.watchHearing()
	m.announcer.announce()
	m.presence.noticeLosses()
	m.quorum.watch()
	m.takeBack()
	m.fork.consider(m.competing.gathering != nil)
	m.repeat()
	m.catchup.catchUp()
	m.competing.pursue()
	m.founder.consider()
	m.pacemaker.watch()
	m.leader.repeatAsLeader()
	m.leader.beat()
	// The end of the run is looked for last, by all that the calls above led to.
	if m.exit.finish(m.competing.gathering != nil) {
		m.announcer.alive()
	}
	m.settle()
}

// repeat repeats messages that were not answered or may have been forgotten. The order matters in
// one place: the worker is sent what the newest count of motions decided.
func (m *Machine) repeat() {
	m.own.repeatOffer(m.open.following)
	m.evidence.repeat(m.roster.concerns)
	m.statements.repeat()
	m.motions.recount()
	m.motions.repeat()
	m.motions.sendAccess()
	m.news.reportMembership()
}

// Ready drains what the inputs since the last call led to. What the call before it gave is on disk
// by now.
func (m *Machine) Ready() Ready {
	m.chain.Release(m.saved)
	m.saved = m.chain.Height()
	return m.drain()
}

// Record is the certified record at a height, from 1. It may come from disk.
func (m *Machine) Record(height uint64) (wire.Commit, bool) {
	c, err := m.chain.Read(height)
	return c, err == nil
}

// Alone says whether no record that is known or signed here lists more than the founder, in the
// run's first slots.
func (m *Machine) Alone() bool {
	tip, signed := m.chain.Tip(), m.pledges.open
	alone := func(r slot.Record) bool { return len(r.Members) == 1 }
	ok := tip.Slot < slot.Early && m.exit.how() == EndsNot &&
		(signed.Have == nil || alone(signed.Have.Record)) && (signed.Vote == nil || alone(signed.Vote.Record))
	for height := tip.Height; ok && height > 0; height-- {
		c, held := m.Record(height)
		ok = held && alone(c.Record)
	}
	return ok
}

// settle does what the newest input made possible. Each step checks whether its conditions hold.
// What a step sends to this peer itself comes back as an input of its own.
func (m *Machine) settle() {
	if msg, ok := m.acceptor.takeAhead(); ok {
		_ = m.receive(msg) // refused, as it would have been on time
	}
	m.turnout.watch(m.open.position(m.open.ballot), m.open.leader(m.open.ballot), m.open.owed, m.pacemaker.length())
	m.model.advanceState(m.catchup.chainGrows)
	m.participant.answerDraft()
	m.acceptor.castVote()
	m.leader.lead()
}
