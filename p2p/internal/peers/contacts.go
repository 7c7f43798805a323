package peers

import (
	"cmp"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Contacts are up to limit addresses, each ending in /p2p/PEER, with which a newcomer that knows no
// peer could find the given ones: of as many of them as can be, then of the bootstrap nodes that
// this peer was given, then second ones. Those of one peer stand next to each other, and peers with
// public addresses first. A loopback address is only among them where a peer has no other, and none
// that usable refuses.
func (e Env) Contacts(peers []slot.PeerID, limit int, usable func(addr string) bool) []string {
	var all []contact
	for _, p := range peers {
		all = addContact(all, peer.ID(p), e.addrsOf(peer.ID(p)), usable)
	}
	for _, given := range e.Dialer.Nodes() {
		addrs := slices.Concat(e.Host.Peerstore().Addrs(given.ID), given.Addrs)
		all = addContact(all, given.ID, multiaddr.Unique(addrs), usable)
	}
	choose(all, limit)
	var out []string
	for _, c := range all {
		for _, a := range c.addrs[:c.chosen] {
			out = append(out, full(a, c.id))
		}
	}
	return out
}

// addrsOf are a peer's addresses: of one that is not connected those that a connection has shown,
// for what the host knows of it then may be anybody's word.
func (e Env) addrsOf(id peer.ID) []multiaddr.Multiaddr {
	if id == e.Host.ID() {
		return e.Host.Addrs()
	}
	if addrs, shown := e.Book.Addrs(id); shown && !e.Connected(id) {
		return addrs
	}
	return e.Host.Peerstore().Addrs(id)
}

// contact is a peer and its addresses that may be handed out, the best first.
type contact struct {
	id     peer.ID
	addrs  []multiaddr.Multiaddr
	chosen int
}

func full(a multiaddr.Multiaddr, id peer.ID) string { return a.String() + "/p2p/" + id.String() }

// addContact adds a peer that has an address and is not among all.
func addContact(all []contact, id peer.ID, addrs []multiaddr.Multiaddr, usable func(addr string) bool) []contact {
	addrs = slices.DeleteFunc(slices.Clone(addrs),
		func(a multiaddr.Multiaddr) bool { return addrRank(a) == rankNone || !usable(full(a, id)) })
	slices.SortStableFunc(addrs, func(a, b multiaddr.Multiaddr) int {
		return cmp.Or(addrRank(a)-addrRank(b), cmp.Compare(a.String(), b.String()))
	})
	if len(addrs) > 0 && addrRank(addrs[0]) < rankLoopback {
		addrs = slices.DeleteFunc(addrs, func(a multiaddr.Multiaddr) bool { return addrRank(a) == rankLoopback })
	}
	if len(addrs) == 0 || slices.ContainsFunc(all, func(c contact) bool { return c.id == id }) {
		return all
	}
	return append(all, contact{id: id, addrs: addrs})
}

// choose takes the contacts' addresses in turn, public ones first: of many peers those that can be
// reached have their place.
func choose(all []contact, limit int) {
	slices.SortStableFunc(all, func(a, b contact) int { return addrRank(a.addrs[0]) - addrRank(b.addrs[0]) })
	for before := limit + 1; limit > 0 && limit < before; {
		before = limit
		for i := range all {
			if c := &all[i]; limit > 0 && c.chosen < len(c.addrs) {
				c.chosen++
				limit--
			}
		}
	}
}

// Ranks of addresses, the likeliest to be reached from elsewhere first.
const (
	rankPublic = iota
	rankRelayed
	rankPrivate
	rankLoopback
	rankNone // of no use to others
)

func addrRank(a multiaddr.Multiaddr) int {
	switch relayed := IsRelayed(a); {
	case manet.IsIPUnspecified(a) || manet.IsIP6LinkLocal(a):
		return rankNone
	case relayed && manet.IsPublicAddr(a):
		return rankRelayed
	case relayed: // who reaches such a relay has other ways
		return rankNone
	case manet.IsPublicAddr(a):
		return rankPublic
	case manet.IsIPLoopback(a):
		return rankLoopback
	}
	return rankPrivate
}
