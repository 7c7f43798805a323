package membership

import (
	"encoding/binary"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A COMMIT grows with the members, and so does the number of peers that want it: at 500 members it
// is 195 KiB, and the leader's uplink would carry all of them, 95 MiB a slot. So where many want
// it, the leader sends it to a few, and each of those passes it on to a few others. A peer that
// gets it from nobody, since those before it are gone, hears the ALIVEs of peers that are further
// and asks, as ever.
const (
	commitFan  = 8  // the number of peers to which a peer passes a COMMIT on
	directMost = 64 // want it: then the leader sends it to all
)

// audience lists the peers that a record concerns: the members before it and those that it lists.
// The leader that decided it is first. The others follow by peer ID. Each record starts at another
// peer, so that the same peers do not always have to pass it on.
func audience(lead slot.PeerID, before []slot.Member, r slot.Record) []slot.PeerID {
	others := without(union(peersOf(before), peersOf(r.Members)), lead)
	hash := r.Hash()
	first := int(binary.BigEndian.Uint64(hash[:]) % uint64(max(1, len(others))))
	return slices.Concat([]slot.PeerID{lead}, others[first:], others[:first])
}

// firstReceivers lists the peers to which the leader sends a COMMIT, itself included.
func (f *facts) firstReceivers(c wire.Commit) []slot.PeerID {
	before := f.chain.Members()
	all := union(peersOf(before), peersOf(c.Record.Members), []slot.PeerID{f.cfg.Self})
	if len(all) <= directMost || c.Record.Kind == slot.Fork {
		return all
	}
	return append(passesTo(audience(f.cfg.Self, before, c.Record), f.cfg.Self), f.cfg.Self)
}

// passesTo lists the peers to which one of a large audience passes a COMMIT on.
func passesTo(all []slot.PeerID, p slot.PeerID) []slot.PeerID {
	i := slices.Index(all, p)
	if i < 0 || len(all) <= directMost {
		return nil
	}
	first := min(i*commitFan+1, len(all))
	return slices.Clone(all[first:min(first+commitFan, len(all))])
}
