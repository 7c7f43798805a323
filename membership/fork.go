package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// forking is the way on where no quorum of the tip's members is left: a fork record, signed by every peer that it lists. It belongs
// to the open place.
//
// The senior of those that are heard, or the lowest ID of holders who are no members, sends PROPOSE with the record to all that it
// lists. Each of them that has waited long enough itself signs, mark on disk first, and sends FORK to all of them: any one can put
// the certificate together, so a signer that dies in between stops nothing. Regular votes at the place go on meanwhile: what a
// fork starts is another branch, and contradicts nothing that is decided on this one.
type forking struct {
	lost    time.Duration // when a quorum of the tip's members was last heard; of peers that are none of them, a member
	without bool          // there is none
	barren  time.Duration // since when nobody is heard that holds the state at the tip
	ordered bool          // an operator said recover
	next    uint32        // the lowest attempt that nobody has named here
	signed  *EntryFork    // the newest signature of this peer
	at      time.Duration // when it was given, or taken from disk
	sent    time.Duration
	sigs    map[slot.PeerID][]byte
	leads   bool         // the newest attempt is this peer's own
	passed  map[who]bool // who did not sign its last attempt
}

func newForking(saved *EntryFork) forking {
	f := forking{
		lost: never, barren: never, at: never, sent: never, signed: saved, sigs: map[slot.PeerID][]byte{}, passed: map[who]bool{},
	}
	if saved != nil {
		f.next = saved.Ballot + 1
	}
	return f
}

// along says whether a peer is on this branch, as far as it has said: standing on one of its records, or further on it.
func (m *Machine) along(a *acquaintance) bool {
	return a.alive == nil || a.alive.Branch == m.chain.branch || m.chain.has(a.alive.Height, a.alive.Tip)
}

// memberShows says whether any member of the tip has shown itself lately on this branch.
func (m *Machine) memberShows() bool {
	return m.elector() || slices.ContainsFunc(m.chain.electorate(), func(e slot.Member) bool {
		a := m.presence.known[ofMember(e)]
		return a != nil && a.alive != nil && m.around(a.who) && m.along(a)
	})
}

// stalled says whether this peer would fork: nobody could decide the open height for long enough, or an operator has said so.
func (m *Machine) stalled() bool {
	f, wait := &m.fork, m.cfg.Timing.ForkAfter
	if m.chain.height() == 0 || f.lost == never {
		return false
	}
	if f.ordered {
		return true
	}
	if !m.elector() {
		wait *= 2
	}
	return wait > 0 && !m.cfg.PauseOnLoss && m.now-f.lost >= wait
}

// forkPause is the time between two signatures at one place. Without a time to fork after, an order has one of its own.
func (m *Machine) forkPause() time.Duration {
	if t := m.cfg.Timing.ForkAfter; t > 0 {
		return t
	}
	return 8 * m.cfg.Timing.Lost
}

// considerFork counts the time without a quorum, and starts an attempt or repeats one.
func (m *Machine) considerFork() {
	f := &m.fork
	if m.chain.height() == 0 || m.elector() && m.quorumHeard() || !m.elector() && m.memberShows() {
		f.lost, f.ordered, f.without = m.now, false, false
		return
	}
	if f.lost == never {
		f.lost = m.now
	}
	f.without = true
	switch {
	case !m.mayFork():
	case f.signed != nil && m.now-f.at < m.forkPause():
		m.repeatFork()
	default:
		m.proposeFork()
	}
}

// mayFork says whether this peer would sign a fork now: the state at the tip is on its disk, too.
func (m *Machine) mayFork() bool {
	follows := m.rival != nil && m.now-m.fork.lost < 3*m.forkPause() // what it gathers may be the way on
	return m.stalled() && m.atTip() && !m.left && !m.leaving && !m.chain.closed() && m.chain.pinned && !follows
}

// forkers lists who would be in a fork of the tip: its members that are heard and stand at it; where none is left, whoever holds
// its state and asks to be a member (HOLES H22).
func (m *Machine) forkers() (list []slot.Member) {
	for _, a := range m.presence.sorted(func(a *acquaintance) bool { return m.around(a.who) }) {
		_, member := findMember(m.chain.electorate(), a.peer, a.inc)
		self := a.who == m.presence.self
		switch {
		case self && member == m.elector():
		case member != m.elector() || m.unwelcome(a.who) || !m.atOurTip(a) || m.fork.passed[a.who] || !member && !m.joining(a):
			continue
		}
		if slot.Find(list, a.peer) < 0 {
			list = append(list, m.chain.listed(a.peer, a.inc))
		}
	}
	if slot.Find(list, m.cfg.Self) < 0 { // a stranger to itself
		list = with(list, m.chain.listed(m.cfg.Self, m.cfg.Incarnation))
	}
	return list
}

// proposeFork opens an attempt, if that is this peer's to do. Who did not sign its last one is passed over once.
func (m *Machine) proposeFork() {
	f := &m.fork
	if f.leads {
		f.passed = map[who]bool{}
		for _, e := range f.signed.Record.Members {
			if f.sigs[e.Peer] == nil {
				f.passed[ofMember(e)] = true
			}
		}
	}
	list := m.forkers()
	f.passed, f.leads = map[who]bool{}, false
	if slot.Senior(list).Peer != m.cfg.Self {
		return
	}
	ref := m.chain.next()
	ref.Ballot = f.next
	m.signFork(ref, slot.Record{
		Run: m.cfg.Rules.Run, Height: ref.Height, Kind: slot.Fork, Prev: ref.Prev, Slot: m.chain.tip().Slot, StateRoot: m.state.root,
		Members: list, Work: m.chain.workOfFork(list),
	})
	f.leads = true
	m.repeatFork()
}

// signFork signs a record, mark on disk first (I6): no other one in this attempt, whatever happens.
func (m *Machine) signFork(ref slot.Ref, r slot.Record) {
	f := &m.fork
	f.signed, f.at, f.sent, f.leads = &EntryFork{ref, r}, m.now, never, false
	m.open.word.fork = f.signed
	f.next, f.sigs = max(f.next, ref.Ballot+1), map[slot.PeerID][]byte{}
	m.persist(*f.signed)
}

// repeatFork says the own signature again to all whom the record lists, and the record with it if this peer leads the attempt.
func (m *Machine) repeatFork() {
	f := &m.fork
	if m.now-f.sent < m.cfg.Timing.Retry {
		return
	}
	f.sent = m.now
	all := peersOf(f.signed.Record.Members)
	if others := without(all, m.cfg.Self); f.leads && len(others) > 0 {
		m.send(Propose{Ballot: f.signed.Ballot, Record: f.signed.Record}, others...)
	}
	m.send(ForkVote{slot.Vote{Ref: f.signed.Ref, Hash: f.signed.Record.Hash()}}, all...)
}

// onForkPropose signs a fork that lists this peer, if it would fork itself by now and has not signed another one lately.
func (m *Machine) onForkPropose(msg Message, p Propose) error {
	f, r := &m.fork, p.Record
	if _, in := findMember(r.Members, msg.From, msg.Incarnation); !in || m.chain.height() == 0 {
		return ErrSender
	}
	if _, in := findMember(r.Members, m.cfg.Self, m.cfg.Incarnation); !in || p.Ballot > f.next+maxBallotStep {
		return invalid("a fork in attempt %d that does not list this peer", p.Ballot)
	}
	if err := m.chain.check(r); err != nil {
		return err
	}
	f.next = max(f.next, p.Ballot+1)
	switch s := f.signed; {
	case s != nil && s.Ballot == p.Ballot && s.Record.Hash() == r.Hash():
		m.repeatFork()
	case s != nil && (s.Ballot >= p.Ballot || m.now-f.at < m.forkPause()):
		return fmt.Errorf("%w: another fork is signed", ErrStale)
	case m.mayFork() && r.StateRoot == m.state.root && m.elector() == (m.chain.stays(r.Members) > 0):
		m.signFork(p.At(), r)
		m.repeatFork()
	}
	return nil // else it is said again, and may be signed then
}

// onForkVote gathers the signatures on the record that this peer has signed. With all of them it is certified.
func (m *Machine) onForkVote(msg Message, v ForkVote) error {
	if m.chain.height() == 0 {
		return m.onFounding(msg, v)
	}
	f := &m.fork
	if f.signed == nil || v.Ref != f.signed.Ref || v.Hash != f.signed.Record.Hash() {
		return fmt.Errorf("%w: not the fork that is signed here", ErrStale)
	}
	members := f.signed.Record.Members
	if _, in := findMember(members, msg.From, msg.Incarnation); !in {
		return ErrSender
	}
	f.sigs[msg.From] = msg.Sig
	if len(f.sigs) == len(members) {
		m.gossip(Commit{Record: f.signed.Record, Certificate: certificate(v.Vote, f.sigs)}, peersOf(members)...)
	}
	return nil
}

// forkNow is the operator's order to go on without a quorum. It is void once there is one, or another tip.
func (m *Machine) forkNow() {
	m.fork.ordered = true
	m.considerFork()
}
