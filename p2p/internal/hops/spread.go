package hops

import (
	"hash/fnv"
	"maps"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
)

// maxSpread is how many members there may be for their streams to be spread: it takes a step for
// each pair and forwarder.
const maxSpread = 64

// spread says who should forward the streams of an origin to a target. "" leaves it open.
//
// What a forwarder carries leaves it once more, over an uplink that is as busy with its own. So the
// members go through all pairs that do not reach each other, in the same order, and give each
// direction to the one that was given least so far. Members that heard the same of each other find
// the same; where they did not, it costs some time.
func spread(reaches map[peer.ID][]peer.ID, origin, target peer.ID) peer.ID {
	if len(reaches) > maxSpread {
		return ""
	}
	w := web{members: slices.Sorted(maps.Keys(reaches)), links: make(map[pair]bool)}
	for a, others := range reaches {
		for _, b := range others {
			w.links[pair{a, b}], w.links[pair{b, a}] = true, true
		}
	}
	given := make(map[peer.ID]int)
	for _, from := range w.members {
		for _, to := range w.members {
			if from == to || w.links[pair{from, to}] {
				continue
			}
			via := w.least(given, from, to)
			if from == origin && to == target {
				return via
			}
			given[via]++
		}
	}
	return w.least(given, origin, target) // they do reach each other, now and then
}

// web is who reaches whom. A connection has two ends: one that announces it is enough.
type web struct {
	members []peer.ID
	links   map[pair]bool
}

// least is the member between two others to which least was given. "" if there is none.
func (w web) least(given map[peer.ID]int, from, to peer.ID) (best peer.ID) {
	for _, via := range w.members {
		if via == from || via == to || !w.links[pair{from, via}] || !w.links[pair{via, to}] {
			continue
		}
		if best == "" || given[via] < given[best] ||
			given[via] == given[best] && share(via, from, to) < share(best, from, to) {
			best = via
		}
	}
	return best
}

// share is a number that depends on the pair and the forwarder.
func share(via, from, to peer.ID) uint64 {
	sum := fnv.New64a()
	for _, id := range []peer.ID{from, to, via} {
		_, _ = sum.Write([]byte(id)) // it never fails
	}
	return sum.Sum64()
}
