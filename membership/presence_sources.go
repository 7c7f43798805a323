package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// maxSources bounds the list of peers that a worker is told to ask.
const maxSources = 16

// sources lists peers to fetch from: those of the lists in their order, then the other members that
// are heard. Within a list the order is random: no peer can choose an ID that puts it among the
// maxSources. It never lists this peer.
func (pr *presence) sources(lists ...[]slot.PeerID) []slot.PeerID {
	var heard []slot.PeerID
	for _, e := range pr.chain.Members() {
		if pr.around(ofMember(e)) {
			heard = append(heard, e.Peer)
		}
	}
	var out []slot.PeerID
	for _, list := range append(lists, heard) {
		for _, p := range pr.mixed(list) {
			if p != pr.cfg.Self && !slices.Contains(out, p) && len(out) < maxSources {
				out = append(out, p)
			}
		}
	}
	return out
}

// mixed returns a list in random order.
func (pr *presence) mixed(ps []slot.PeerID) []slot.PeerID {
	if pr.cfg.Rand == nil {
		return ps
	}
	key := map[slot.PeerID]uint64{}
	for _, p := range ps {
		key[p] = pr.cfg.Rand()
	}
	return slices.SortedFunc(slices.Values(ps), func(a, b slot.PeerID) int { return cmp.Compare(key[a], key[b]) })
}

// appliedBy lists the peers that announce the state after a height or a later one, on this chain:
// electors, other members, strangers. What strangers claim, however many they are, must not push
// members out of the sources. In open runs nor must members that have not earned a seat: anybody
// is a member at once there.
func (pr *presence) appliedBy(height uint64) [][]slot.PeerID {
	var electors, members, strangers []slot.PeerID
	holds := func(a *contact) bool {
		return a.alive != nil && a.alive.Synced && pr.along(a) && a.alive.Applied >= height && pr.around(a.memberKey)
	}
	for _, a := range pr.sorted(holds) {
		switch m, member := chain.FindMember(pr.chain.Members(), a.peer, a.inc); {
		case !member:
			strangers = append(strangers, a.peer)
		case m.Elects():
			electors = append(electors, a.peer)
		default:
			members = append(members, a.peer)
		}
	}
	return [][]slot.PeerID{electors, members, strangers}
}

// offers lists the valid standing offers for the open slot, sorted by peer.
func (pr *presence) offers() []slot.Offer {
	var os []slot.Offer
	open := pr.chain.OpenSlot() // an error costs more than a look
	for _, e := range pr.chain.Members() {
		a := pr.known[ofMember(e)]
		if a != nil && a.offer != nil && a.offer.Slot == open && pr.chain.CheckOffer(*a.offer) == nil {
			os = append(os, *a.offer)
		}
	}
	return os
}

// offerTimes lists the times at which the offers came, sorted.
func (pr *presence) offerTimes(offers []slot.Offer) []time.Duration {
	var at []time.Duration
	for _, e := range pr.chain.Members() {
		if hasOffer(offers, e.Peer) {
			at = append(at, pr.known[ofMember(e)].offerAt)
		}
	}
	slices.Sort(at)
	return at
}

// reachedBy counts the members, including this peer, that announce a connection to p.
func (pr *presence) reachedBy(p slot.PeerID) (n int) {
	if pr.connected[p] || p == pr.cfg.Self {
		n++
	}
	for _, e := range pr.chain.Members() {
		if a := pr.known[ofMember(e)]; a != nil && a.alive != nil && slices.Contains(a.alive.Reaches, p) {
			n++
		}
	}
	return n
}

// heardOf says whether a member is around.
func (pr *presence) heardOf(p slot.PeerID) bool {
	i := slot.Find(pr.chain.Members(), p)
	return i >= 0 && pr.around(ofMember(pr.chain.Members()[i]))
}
