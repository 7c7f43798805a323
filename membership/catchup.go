package membership

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// commitsAtOnce bounds the answer to one NEED.
const commitsAtOnce = 16

// need is the newest question for certified records.
type need struct {
	from  uint64
	at    time.Duration
	times int // asked without an answer
}

// ask asks a peer for the records above the tip, unless that was asked just now.
func (m *Machine) ask(p slot.PeerID) {
	n := &m.need
	from := m.chain.height() + 1
	if p == m.cfg.Self || n.from == from {
		return // asked; catchUp asks again, and whom it likes: who shouts loudest does not get every question
	}
	n.from, n.at, n.times = from, m.now, 0
	m.send(Need{From: from}, p)
}

// catchUp asks whoever is further, another one each time, until the chain is as long as the longest heard of. Every other
// question goes to a member: strangers may claim any height.
func (m *Machine) catchUp() {
	ahead, n := m.ahead(), &m.need
	if len(ahead) == 0 || n.from == m.chain.height()+1 && m.now-n.at < m.cfg.Timing.Retry {
		return
	}
	if n.from != m.chain.height()+1 {
		n.from, n.times = m.chain.height()+1, -1
	}
	n.at = m.now
	n.times++
	members := slices.DeleteFunc(slices.Clone(ahead), func(p slot.PeerID) bool { return slot.Find(m.chain.electorate(), p) < 0 })
	if n.times%2 == 0 && len(members) > 0 {
		ahead = members
	}
	m.send(Need{From: n.from}, ahead[n.times/2%len(ahead)])
}

// chainGrows says whether somebody has more of the chain and is likely to send it: who only claims a longer one is not waited for.
func (m *Machine) chainGrows() bool { return m.need.times < 3 && len(m.ahead()) > 0 }

// ahead lists who is further on this chain; on any chain while there is none here, those of the greatest work first.
func (m *Machine) ahead() []slot.PeerID {
	as := m.presence.sorted(func(a *acquaintance) bool {
		return a.alive != nil && a.alive.Height > m.chain.height() && m.around(a.who) && m.ours(*a.alive) && !m.showsBarren(*a.alive) && !m.doubts(a.peer)
	})
	slices.SortStableFunc(as, func(a, b *acquaintance) int {
		return cmp.Or(cmp.Compare(b.alive.Work, a.alive.Work), bytes.Compare(a.alive.Branch[:], b.alive.Branch[:]))
	})
	ps := make([]slot.PeerID, len(as))
	for i, a := range as {
		ps[i] = a.peer
	}
	return ps
}

// onNeed answers with a few certified records. Anybody may ask: a newcomer is nobody's acquaintance.
func (m *Machine) onNeed(msg Message, n Need) error {
	if n.From == 0 || n.From > m.chain.height() {
		return ErrStale
	}
	for _, c := range m.chain.commits[n.From-1 : min(n.From-1+commitsAtOnce, m.chain.height())] {
		m.send(c, msg.From)
	}
	return nil
}

// onCommit takes a certified record: the successor of the tip, part of a rival chain, or a sign that this peer is behind. Who
// sends it does not matter: the certificate does.
func (m *Machine) onCommit(msg Message, c Commit) error {
	r, next := c.Record, m.chain.next()
	follows := r.Height == next.Height && r.Prev == next.Prev && !(m.barren.has(r.Height, r.Hash()) && len(m.ahead()) == 0)
	switch {
	case r.Run != m.cfg.Rules.Run:
		return invalid("a record of run %s", r.Run.Short())
	case follows && m.mayFollow(r) && (m.chain.pinned || r.Hash() == m.chain.pin):
		return m.takeNext(msg, c)
	case m.isRival(msg, c):
		return m.extendRival(c)
	case r.Height > next.Height:
		m.ask(msg.From)
		return nil
	}
	return fmt.Errorf("%w: a record of another branch, or one that is known", ErrStale)
}

// takeNext verifies and adopts the successor of the tip.
func (m *Machine) takeNext(msg Message, c Commit) error {
	r, before := c.Record, m.chain.electorate()
	spread := m.spread()
	if err := m.chain.extend(c, m.cfg.Verify); err != nil {
		m.doubt(msg.From, "its chain does not verify: "+err.Error())
		return err
	}
	if r.Kind == slot.Step {
		m.noteSpread(spread)
		m.noteReduction(r)
		m.slotAt = m.now
	}
	m.passOn(msg.From, before, c)
	m.adopted(c, before)
	if m.need.from > 0 && r.Height == m.need.from+commitsAtOnce-1 {
		m.ask(msg.From)
	}
	return nil
}

// adopted turns to the next height after the chain has grown by c. I5: the certificate is on disk before anything is applied.
func (m *Machine) adopted(c Commit, before []slot.Member) {
	m.persist(EntryCommit(c))
	m.checkOwnWords(c, before)
	m.tellAdopted(c, before)
	m.leavePlace(c)
	m.meetMembers(before)
	m.openDecree()
	m.compareState()
	m.spendOffer()
	if c.Record.Height == 1 {
		m.aliveAt = never // others wait to hear that there is a run
	}
	m.replayEarly()
}

// tellAdopted says what the record changed.
func (m *Machine) tellAdopted(c Commit, before []slot.Member) {
	r := c.Record
	m.tellRecord(EventCertified, r, c.Certificate.Ballot)
	e := Event{Height: r.Height, Slot: r.Slot, Ballot: c.Certificate.Ballot, Members: peersOf(r.Members)}
	if r.Kind == slot.Step {
		step := e
		step.Kind, step.Contributors, step.Root = EventCommitted, offerers(r.Contributions), r.Outcome()
		m.event(step)
	}
	if r.Kind == slot.Fork && r.Height > 1 {
		forked := e
		forked.Kind, forked.Root, forked.Detail = EventForked, r.Hash(), forkText(r)
		m.event(forked)
	}
	m.tellDecisions(e, r)
	m.tellMembers(e, before, r.Members)
}

// tellMembers says who is new and who is gone.
func (m *Machine) tellMembers(e Event, before, now []slot.Member) {
	if !slices.Equal(before, now) {
		changed := e
		changed.Kind = EventMembers
		m.event(changed)
	}
	for _, gone := range before {
		if _, stays := findMember(now, gone.Peer, gone.Incarnation); !stays {
			m.tellGone(e, gone)
		}
	}
	if _, was := findMember(before, m.cfg.Self, m.cfg.Incarnation); !was && e.Height == 1 && m.elector() {
		e.Kind, e.Peer, m.listed = EventFounded, m.cfg.Self, true
		m.event(e)
	}
	m.tellStanding()
}

// tellStanding says when this peer has become a member, or is none any more, at the newest record that it hears of: not again for
// each old record that it catches up with.
func (m *Machine) tellStanding() {
	if len(m.ahead()) > 0 {
		return
	}
	out := m.chain.access.removed[m.cfg.Self]
	news := out && m.wasMember && !m.toldOut // it may have been dropped before its removal was on record
	if m.toldOut = out; m.listed == m.elector() && !news {
		return
	}
	m.listed = m.elector()
	m.wasMember = m.wasMember || m.listed
	tip := m.chain.tip()
	e := Event{Kind: EventJoined, Height: tip.Height, Slot: tip.Slot, Peer: m.cfg.Self, Members: peersOf(tip.Members)}
	if !m.listed {
		e.Kind, e.Detail = EventLeft, "lost"
		switch {
		case m.left:
			e.Detail = "left"
		case out:
			e.Detail = DetailRemoved
		}
	}
	m.event(e)
}

func (m *Machine) tellRecord(kind EventKind, r slot.Record, ballot uint32) {
	m.event(Event{
		Kind: kind, Height: r.Height, Slot: r.Slot, Ballot: ballot, RecordKind: r.Kind, Record: r.Hash(), Prev: r.Prev, State: r.StateRoot,
	})
}

func (m *Machine) tellGone(e Event, gone slot.Member) {
	e.Kind, e.Peer, e.Detail = EventLeft, gone.Peer, "lost"
	if a := m.presence.known[ofMember(gone)]; a != nil && a.leaving {
		e.Detail = "left"
	}
	if m.barred(gone.Peer) && gone.Peer != m.cfg.Self { // of itself tellStanding says so, where it is still so
		e.Detail = DetailRemoved
	}
	if ofMember(gone) == m.presence.self {
		if m.left = m.leaving; m.left {
			m.mine = nil
		} // else the offer stands: it counts if this peer is listed again in time
		return // tellStanding
	}
	m.event(e)
}
