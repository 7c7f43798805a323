package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// former keeps the members that the run lost lately: those that were dropped because they were not
// heard. They may come back, and at the end of the run they are waited for.
type former struct {
	*facts
	presence *presence
	evidence *evidence

	lost map[slot.PeerID]time.Duration // when the record came that dropped them
}

const (
	// formerFor is how long a member that was lost counts as one that may come back.
	formerFor = time.Hour
	// formerHeights is how many of the newest records a peer looks through after a restart. It does
	// not know then how old they are.
	formerHeights = 64
)

// restore finds the lost members in the newest records of a chain that was on disk.
func (fo *former) restore() {
	height := fo.chain.Height()
	for h := max(height-min(height, formerHeights), fo.chain.Floor()); h < height; h++ {
		fo.follow(fo.chain.At(h).Members, fo.chain.At(h+1).Members)
	}
}

// follow takes in that the members are others now.
func (fo *former) follow(before, now []slot.Member) {
	for _, e := range before {
		if slot.Find(now, e.Peer) < 0 && !fo.parted(e) {
			fo.lost[e.Peer] = fo.now
		}
	}
	for _, e := range now {
		delete(fo.lost, e.Peer)
	}
	for p, at := range fo.lost {
		if fo.now-at > formerFor {
			delete(fo.lost, p)
		}
	}
}

// parted says whether a member is gone by its own wish, or was put out.
func (fo *former) parted(e slot.Member) bool {
	a := fo.presence.known[ofMember(e)]
	return e.Peer == fo.cfg.Self || a != nil && a.leaving || fo.evidence.evicted(ofMember(e)) ||
		fo.chain.Access().Removed(e.Peer)
}

// unserved lists the members of the tip, and those that were lost within formerFor, that have not
// shown that they hold the state after the tip.
func (fo *former) unserved() (ps []slot.PeerID) {
	for _, e := range fo.chain.Members() {
		if a := fo.presence.known[ofMember(e)]; ofMember(e) != fo.self && (a == nil || !fo.presence.showsTip(a)) {
			ps = append(ps, e.Peer)
		}
	}
	for p, at := range fo.lost {
		if fo.now-at <= formerFor && !fo.shown(p) {
			ps = append(ps, p)
		}
	}
	slices.Sort(ps)
	return ps
}

// shown says whether a peer has shown, in any incarnation, that it holds the state after the tip.
func (fo *former) shown(p slot.PeerID) bool {
	return slices.ContainsFunc(fo.presence.sorted(func(a *contact) bool { return a.peer == p }), fo.presence.showsTip)
}
