package membership

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// These bound the answer to one NEED. It ends with the record that reaches either.
const (
	commitsAtOnce = 128
	bytesAtOnce   = 1 << 20
)

// catchup fetches records from the peers that are further on the chain.
type catchup struct {
	*facts
	*effects
	presence *presence
	doubts   *doubts
	need     need
	early    early // messages for the height after the open one
}

// need is the newest question for certified records.
type need struct {
	from   uint64
	at     time.Duration
	times  int    // asked without an answer
	bytes  int    // of the answer, so far
	newest uint64 // record of the answer
	top    uint64 // the highest that any peer said it had then
	over   bool   // the answer has come whole
}

// ends says whether a record is the last of the answer to the question.
func (n *need) ends(c wire.Commit) bool {
	records := c.Record.Height - n.from + 1
	if n.from == 0 || records > commitsAtOnce || n.bytes >= bytesAtOnce {
		return false // that question was answered long ago
	}
	n.bytes, n.newest = n.bytes+c.Size(), c.Record.Height
	n.over = records == commitsAtOnce || n.bytes >= bytesAtOnce
	return n.over
}

// ask asks a peer for the records above the tip, unless that was asked just now.
func (cu *catchup) ask(p slot.PeerID) {
	n := &cu.need
	from := cu.chain.Height() + 1
	if p == cu.cfg.Self || n.from == from || cu.comes() {
		// catchUp asks again, and chooses the peer, so that the peer that sends most does not get
		// every question
		return
	}
	*n = need{from: from, at: cu.now, top: cu.top()}
	cu.send(wire.Need{From: from}, p)
}

// catchUp asks a peer that is further, another one each time, until the chain is as long as the
// longest one announced. Every other question goes to a member: strangers may claim any height.
func (cu *catchup) catchUp() {
	ahead, n := cu.ahead(), &cu.need
	if len(ahead) == 0 { // peers that could not answer for a while are doubted, too
		ahead = cu.further(func(slot.PeerID) bool { return true })
	}
	if len(ahead) == 0 || n.from == cu.chain.Height()+1 && cu.now-n.at < cu.cfg.Timing.Retry || cu.comes() {
		return
	}
	if n.from != cu.chain.Height()+1 {
		*n = need{from: cu.chain.Height() + 1, times: -1, top: cu.top()}
	}
	n.at = cu.now
	n.times++
	members := slices.DeleteFunc(slices.Clone(ahead),
		func(p slot.PeerID) bool { return slot.Find(cu.chain.Members(), p) < 0 })
	if n.times%2 == 0 && len(members) > 0 {
		ahead = members
	}
	p := ahead[n.times/2%len(ahead)]
	cu.send(wire.Need{From: n.from}, p)
}

// top is the greatest height that a peer says it has.
func (cu *catchup) top() (height uint64) {
	for _, a := range cu.presence.known {
		if a.alive != nil {
			height = max(height, a.alive.Height)
		}
	}
	return height
}

// comes says whether records come without another question: the rest of an answer is on its way,
// over a link that may be slow, or competing gathers them up to the pin.
func (cu *catchup) comes() bool {
	n := &cu.need
	return !cu.mayGrow() ||
		!n.over && n.newest == cu.chain.Height() && (n.top == 0 || n.newest < n.top) &&
			cu.now-n.at < cu.cfg.Timing.Retry
}

// chainGrows says whether a peer has more of the chain and is likely to send it. A peer that only
// claims a longer chain is not waited for; nor is a stranger where a member of the tip shows
// itself.
func (cu *catchup) chainGrows() bool {
	ahead := cu.ahead()
	if cu.chain.Height() > 0 && cu.presence.memberShows() {
		ahead, _ = split(ahead, func(p slot.PeerID) bool { return slot.Find(cu.chain.Members(), p) >= 0 })
	}
	return cu.need.times < 3 && len(ahead) > 0
}

// ahead lists the peers that are further on this chain and whose claims are not doubted.
func (cu *catchup) ahead() []slot.PeerID {
	return cu.further(func(p slot.PeerID) bool { return !cu.doubts.has(p) })
}

// further lists the peers that are further on this chain, of those for which may holds. While there
// is no chain here, it lists the peers that have any, those of the greatest work first.
func (cu *catchup) further(may func(slot.PeerID) bool) []slot.PeerID {
	as := cu.presence.sorted(func(a *contact) bool {
		return a.alive != nil && a.alive.Height > cu.chain.Height() && cu.presence.around(a.memberKey) &&
			cu.presence.ours(*a.alive) && may(a.peer)
	})
	slices.SortStableFunc(as, func(a, b *contact) int {
		return cmp.Or(cmp.Compare(b.alive.Work, a.alive.Work), bytes.Compare(a.alive.Branch[:], b.alive.Branch[:]))
	})
	ps := make([]slot.PeerID, len(as))
	for i, a := range as {
		ps[i] = a.peer
	}
	return ps
}

// onNeed answers with certified records. Any peer may ask, since newcomers are not known yet.
func (cu *catchup) onNeed(msg wire.Message, n wire.Need) error {
	if n.From == 0 || n.From > cu.chain.Height() {
		return ErrStale
	}
	answer := need{from: n.From}
	for height := n.From; height <= cu.chain.Height(); height++ {
		c, err := cu.chain.Read(height)
		if err != nil {
			return err
		}
		cu.send(c, msg.From)
		if answer.ends(c) {
			return nil
		}
	}
	return nil
}

// onEarly keeps a member's message for the next height: its COMMIT often travels on another path.
// Older ones of the same member make room. A message for a later height would be of no use when
// that COMMIT comes.
func (cu *catchup) onEarly(msg wire.Message, height uint64) error {
	if err := cu.checkMember(msg); err != nil {
		return err
	}
	cu.askOrAwait(msg.From, height-1)
	if height != cu.chain.Height()+2 {
		return nil
	}
	cu.early.add(msg)
	return nil
}

// takeEarly returns the early messages and empties their list.
func (cu *catchup) takeEarly() []wire.Message { return cu.early.drain() }

// askOrAwait asks a peer that shows a longer chain for what follows the tip. If that is the one
// record that is being passed on, it is on its way: otherwise all would ask the first peer that has
// it, which is the leader. A peer that gets it from nobody within Timing.Retry asks then.
func (cu *catchup) askOrAwait(p slot.PeerID, height uint64) {
	if height != cu.chain.Height()+1 || len(cu.chain.Members()) <= directMost || !cu.member() {
		cu.ask(p)
		return
	}
	if n := &cu.need; n.from != height {
		*n = need{from: height, at: cu.now}
	}
}
