package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// decree is the one height being decided, and all that may be forgotten once its record is certified.
//
// Paxos, one decree a height: the acceptor's part is word (on disk); leaders, plans and drafts only arrange what gets proposed.
type decree struct {
	ref   slot.Ref      // the place, at ballot 0
	order []slot.Member // who leads ballot b: order[b mod len]
	word  word          // promise and vote, as persisted

	// Following. ballot is the highest that a leader or a granted PREPARE has shown; the fields below belong to it.
	ballot   uint32
	led      bool // its leader has shown progress, which takes a quorum of promises
	plan     *slot.Plan
	draft    *slot.Draft
	haveSent bool
	proposal *Propose      // valid, and not yet voted for
	beat     Beat          // highest counters seen
	life     time.Duration // when the leader last showed progress
	revision uint32        // the newest that counted as progress, and how many did
	revised  int
	owed     time.Duration // since when work is owed; never while none is
	seen     uint32        // highest ballot that any member named
	campaign time.Duration // when this peer last opened a ballot
	asked    *Message      // a PREPARE that was not granted because the leader lives
	askedAt  time.Duration // when it came
	toldAt   time.Duration // when the leader of a lower ballot was last told of the promise
	drafts   int           // of members records that were seen at this height
	draftAt  time.Duration // when the last one was

	last      *slot.Plan         // the newest plan that was followed, in whichever ballot
	testimony testimony          // about its group
	outcomes  map[slot.Root]bool // on disk here; and next secrets, by their commitments
	fetching  slot.Root          // of these, the one asked of the worker
	fetchedAt time.Duration
	bytes     uint64        // of the running reduction, received here
	stirred   time.Duration // when some last came, or another circle of a ring began

	accessAt time.Duration // when a draft of an access record was last seen
	verified slot.Root     // hash of the record whose orders were last verified

	said   map[said]Message // what members committed themselves to here
	saidBy map[who]int

	lead *leading // nil unless this peer leads the ballot
}

// openDecree starts the height above the tip, with what was promised and voted there before, if anything was.
func (m *Machine) openDecree() {
	d := &decree{
		ref: m.chain.next(), outcomes: map[slot.Root]bool{}, said: map[said]Message{}, saidBy: map[who]int{}, life: never, owed: never, campaign: never, toldAt: never, draftAt: never, fetchedAt: never, accessAt: never,
	}
	d.order = slot.LeaderOrder(d.ref.Prev, m.chain.electorate())
	at := place{d.ref.Height, d.ref.Prev}
	d.word = m.words[at]
	delete(m.words, at)
	if old, tip := m.open, m.chain.tip(); old != nil && tip.Kind.KeepsSlot() && tip.Height == old.ref.Height && tip.Prev == old.ref.Prev {
		if old.last == nil || !slices.ContainsFunc(old.last.Offers, func(o slot.Offer) bool { return m.chain.access.removed[o.Peer] }) {
			d.last, d.testimony, d.stirred = old.last, old.testimony, old.stirred // the slot is the same: its reduction goes on
		}
	}
	m.fork = newForking(d.word.fork)
	d.ballot = d.word.floor()
	d.seen = d.ballot
	m.open = d
	m.countOrders()
	if d.word.vote != nil {
		m.absorb(d.word.vote.Record.Decisions)
	}
	m.resumeLead()
}

// floor is the ballot below which nothing is voted for any more. A vote promises as much as a PROMISE does.
func (w word) floor() uint32 {
	b := uint32(0)
	if w.promise != nil {
		b = w.promise.Ballot
	}
	if w.vote != nil {
		b = max(b, w.vote.Ballot)
	}
	return b
}

// restoreWords takes back what the store kept, each word at its own place.
func (m *Machine) restoreWords(saved Saved) {
	entries := saved.Elsewhere
	if saved.Promise != nil {
		entries = append(entries[:len(entries):len(entries)], *saved.Promise)
	}
	if saved.Vote != nil {
		entries = append(entries[:len(entries):len(entries)], *saved.Vote)
	}
	if saved.Fork != nil {
		entries = append(entries[:len(entries):len(entries)], *saved.Fork)
	}
	for _, e := range entries {
		switch e := e.(type) {
		case EntryPromise:
			at := place{e.Height, e.Prev}
			w := m.words[at]
			w.promise = &e
			m.words[at] = w
		case EntryVote:
			at := place{e.Height, e.Prev}
			w := m.words[at]
			w.vote = &e
			m.words[at] = w
		case EntryFork:
			at := place{e.Height, e.Prev}
			w := m.words[at]
			w.fork = &e
			m.words[at] = w
		}
	}
}

// shelve keeps the open place's word when the chain is left without a decision there.
func (m *Machine) shelve() {
	if d := m.open; d.word != (word{}) {
		m.words[place{d.ref.Height, d.ref.Prev}] = d.word
	}
}

// leavePlace keeps what still binds once a record is certified at the open place: of a step or members record nothing but a fork
// that was signed there. A fork decides nothing here: all words stay.
func (m *Machine) leavePlace(c Commit) {
	if c.Record.Kind != slot.Fork {
		m.open.word = word{fork: m.open.word.fork}
	}
	m.shelve()
}

// at is the open place in a ballot.
func (d *decree) at(ballot uint32) slot.Ref {
	ref := d.ref
	ref.Ballot = ballot
	return ref
}

// leader of a ballot; the zero member if nobody can lead.
func (d *decree) leader(ballot uint32) slot.Member {
	if len(d.order) == 0 {
		return slot.Member{}
	}
	return d.order[ballot%uint32(len(d.order))]
}

// leads says whether a message comes from the leader of a ballot.
func (d *decree) leads(msg Message, ballot uint32) bool {
	l := d.leader(ballot)
	return l.Peer == msg.From && l.Incarnation == msg.Incarnation && l.Peer != ""
}

// maxBallotStep keeps ballots from running out: no honest member is so far ahead of the others at one height.
const maxBallotStep = 1 << 16

// follow accepts a leader's message of a ballot, unless a higher one was promised or is followed. If nobody leads that, the lower one's
// leader is told: it may lack just this peer.
func (m *Machine) follow(msg Message, ballot uint32) error {
	d := m.open
	switch {
	case !d.leads(msg, ballot) || m.barred(msg.From): // the barred would outbid whoever is to record it
		return ErrSender
	case ballot > d.seen+maxBallotStep:
		return invalid("ballot %d after %d", ballot, d.seen)
	case ballot < d.ballot || ballot < d.word.floor():
		if ballot < d.word.floor() && !m.leaderLives() && m.now-d.toldAt >= m.cfg.Timing.Retry {
			d.toldAt = m.now
			m.promise(d.word.floor(), msg.From)
		}
		return ErrStale
	}
	m.enter(ballot)
	return nil
}

// enter turns to a ballot. What belonged to a lower one is forgotten, save what is on disk.
func (m *Machine) enter(ballot uint32) {
	d := m.open
	d.seen = max(d.seen, ballot)
	if ballot <= d.ballot {
		return
	}
	d.ballot, d.led = ballot, false
	d.plan, d.draft, d.haveSent, d.proposal, d.beat, d.bytes = nil, nil, false, nil, Beat{}, 0
	d.asked = nil
	d.life, d.revision, d.revised = m.now, 0, 0
	if d.lead != nil && d.lead.ref.Ballot < ballot {
		d.lead = nil
	}
}
