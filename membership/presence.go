package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// maxStrangers bounds how many peers that are no members are remembered. The ones heard last stay.
const maxStrangers = 256

// contact keeps what one peer in one incarnation has announced of itself.
type contact struct {
	memberKey
	heard     time.Duration // when its last message came, by whatever path
	alive     *wire.Alive   // the newest, with the newest claims; nil until heard
	joinSince time.Duration // first JOIN since it was last a member
	joinHeard time.Duration // last JOIN
	silentAt  time.Duration // when a step last waited in vain for its HAVE
	leaving   bool
	offer     *slot.Offer // the one of the highest sequence number
	offerAt   time.Duration
	suspected bool          // an event has reported it lost, and it was not heard since
	brokenAt  time.Duration // when the connection to it broke; never: there is one, or was none
}

// presence keeps which peers are heard and connected. It decides only when a peer acts and which
// peers a leader lists, never whether a record is valid.
type presence struct {
	*facts
	*effects
	known     map[memberKey]*contact
	connected map[slot.PeerID]bool
	relayed   map[slot.PeerID]bool // the connected peers that are reached through a relay
	// members that could not be reached in a reduction; a connection ends it
	apart   map[slot.PeerID]bool
	speeds  ReportLinks // the newest
	hearing hearing
	busy    time.Duration // since when there is work; never: there is none
}

func newPresence(f *facts, e *effects) *presence {
	return &presence{
		facts: f, effects: e,
		known: map[memberKey]*contact{}, connected: map[slot.PeerID]bool{}, relayed: map[slot.PeerID]bool{},
		hearing: hearing{watched: never}, busy: never,
	}
}

// meet finds or makes the entry of a peer. Above maxStrangers the stranger heard longest ago is
// dropped; strangers that never contributed are dropped first.
func (pr *presence) meet(w memberKey, now time.Duration, members []slot.Member, c *chain.Newcomers) *contact {
	if a := pr.known[w]; a != nil {
		return a
	}
	var oldest *contact
	strangers, silentAt := 0, never
	for _, a := range pr.known {
		if _, listed := chain.FindMember(members, a.peer, a.inc); listed || a.memberKey == pr.self {
			continue
		}
		if a.peer == w.peer { // a stranger has one entry, whatever its incarnation
			silentAt = max(silentAt, a.silentAt)
			delete(pr.known, a.memberKey)
			continue
		}
		strangers++
		if oldest == nil || cmp.Or(compareBools(c.Contributed(a.peer), c.Contributed(oldest.peer)),
			cmp.Compare(a.heard, oldest.heard), cmp.Compare(a.peer, oldest.peer), cmp.Compare(a.inc, oldest.inc)) < 0 {
			oldest = a
		}
	}
	if strangers >= maxStrangers {
		delete(pr.known, oldest.memberKey)
	}
	a := newContact(w, now)
	a.silentAt = silentAt
	pr.known[w] = a
	return a
}

// meetAll makes the entries of members that have none. They replace the entries that their peers
// had as strangers. It returns the members.
func (pr *presence) meetAll(members []slot.Member, now time.Duration) []slot.Member {
	made := map[slot.PeerID]*contact{}
	for _, e := range members {
		if w := ofMember(e); pr.known[w] == nil {
			made[w.peer] = newContact(w, now)
			pr.known[w] = made[w.peer]
		}
	}
	if len(made) == 0 {
		return members
	}
	for w, stranger := range pr.known {
		a := made[w.peer]
		if _, listed := chain.FindMember(members, w.peer, w.inc); a == nil || listed || w == pr.self {
			continue
		}
		a.silentAt = max(a.silentAt, stranger.silentAt)
		delete(pr.known, w)
	}
	return members
}

func newContact(w memberKey, now time.Duration) *contact {
	return &contact{
		memberKey: w, heard: now, joinSince: never, joinHeard: never, silentAt: never, offerAt: never, brokenAt: never,
	}
}

// sorted lists the entries for which in holds, in a fixed order.
func (pr *presence) sorted(in func(*contact) bool) []*contact {
	var all []*contact
	for _, a := range pr.known {
		if in(a) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *contact) int {
		return cmp.Or(cmp.Compare(a.peer, b.peer), cmp.Compare(a.inc, b.inc))
	})
	return all
}

// heard notes a sign of life. Only ALIVE and JOIN make a stranger known; it says whether one has.
func (pr *presence) heard(msg wire.Message) (stranger bool) {
	w := memberKey{msg.From, msg.Incarnation}
	a := pr.known[w]
	switch msg.Body.(type) {
	case wire.Alive, wire.Join:
		if stranger = a == nil; stranger {
			a = pr.meet(w, pr.now, pr.chain.Members(), pr.chain.Newcomers())
		}
	}
	if a == nil {
		return false
	}
	if pr.now-pr.hearing.watched > pr.cfg.Timing.tick() {
		pr.watchHearing() // this process did not run for a moment
	}
	a.heard, a.suspected = pr.now, false
	if pr.hearing.deaf {
		pr.watchHearing()
	}
	return stranger && pr.cfg.Timing.Quiet > 0
}

// around says whether any peer has heard this one lately, and it is not known to be gone since. It
// holds for this peer itself, always.
func (pr *presence) around(w memberKey) bool {
	a := pr.known[w]
	return w == pr.self || pr.heardLately(w) && !pr.gone(a)
}

// watchWork notes when the first member offers to the open slot: from then on the others wait for
// each other, and ALIVEs come as often as Timing has it.
func (pr *presence) watchWork() {
	open := pr.chain.OpenSlot()
	work := pr.chain.Ended() || slices.ContainsFunc(pr.chain.Members(), func(e slot.Member) bool {
		a := pr.known[ofMember(e)]
		return a != nil && a.offer != nil && a.offer.Slot >= open
	})
	switch {
	case !work || pr.cfg.Timing.Quiet == 0:
		pr.busy = never
	case pr.busy == never:
		pr.busy = pr.now
	}
}

// quiet is the longest time between two ALIVEs of a member: 0 while there is work, Timing.Alive.
func (pr *presence) quiet() time.Duration {
	if pr.busy != never {
		return 0
	}
	n := time.Duration(len(pr.chain.Members()))
	return n * n * pr.cfg.Timing.Quiet
}

// lost is for how long a peer is not heard that is lost: three of its ALIVEs, where they are rare.
func (pr *presence) lost() time.Duration { return max(pr.cfg.Timing.Lost, 3*pr.quiet()) }

// heardLately says whether a peer is not lost. It holds for this peer itself, always. Where ALIVEs
// are rare, pulses stand for them: a peer whose connection broke is lost after Timing.Lost.
func (pr *presence) heardLately(w memberKey) bool {
	a := pr.known[w]
	if w == pr.self || a == nil {
		return w == pr.self
	}
	if pr.cfg.Timing.Quiet > 0 && pr.gone(a) { // also where each offer begins the time anew
		return pr.now-a.brokenAt <= pr.cfg.Timing.Lost
	}
	return pr.now-max(a.heard, pr.busy) <= pr.lost()
}

// meetMembers makes entries for the tip's members. New members get the full time to be heard.
func (pr *presence) meetMembers(before []slot.Member) {
	members := pr.chain.Members()
	for _, e := range pr.meetAll(members, pr.now) {
		a := pr.known[ofMember(e)]
		if _, old := chain.FindMember(before, e.Peer, e.Incarnation); !old {
			a.heard, a.suspected, a.joinSince, a.joinHeard, a.brokenAt = pr.now, false, never, never, never
		}
	}
}

// noticeLosses reports, once for each member, that it is not heard any more.
func (pr *presence) noticeLosses() {
	for _, e := range pr.chain.Members() {
		a := pr.known[ofMember(e)]
		if a != nil && !a.suspected && !pr.around(a.memberKey) {
			a.suspected = true
			detail := "not heard"
			if pr.gone(a) {
				detail = "the connection to it broke"
			}
			pr.reportPeer(EventSuspected, ReasonLost, e.Peer, detail)
		}
	}
}

// reaches lists the members that have a direct connection to this peer, sorted.
func (pr *presence) reaches() []slot.PeerID {
	var ps []slot.PeerID
	for _, e := range pr.chain.Members() {
		if pr.connected[e.Peer] {
			ps = append(ps, e.Peer)
		}
	}
	return ps
}
