package membership

import (
	"encoding/binary"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A COMMIT grows with the members, and so does the number of those who want it: at 500 it is 195 KiB, and the leader's uplink would carry all of
// them, 95 MiB a slot. So where many want it, its leader sends it to a few, and each of those on to a few others. Who gets it from
// nobody, since those before it are gone, hears ALIVEs of who is further and asks, as ever.
const (
	commitFan  = 8  // to how many a peer passes a COMMIT on
	directMost = 64 // want it: then the leader sends it to all
)

// audience is whom a record concerns: the members before it and those that it lists. The leader that decided it is first. The others follow by
// peer, from another one on for each record, so that passing on is not always the same peers' part.
func audience(lead slot.PeerID, before []slot.Member, r slot.Record) []slot.PeerID {
	others := without(union(peersOf(before), peersOf(r.Members)), lead)
	hash := r.Hash()
	first := int(binary.BigEndian.Uint64(hash[:]) % uint64(max(1, len(others))))
	return slices.Concat([]slot.PeerID{lead}, others[first:], others[:first])
}

// firstToHear is to whom the leader sends a COMMIT: itself too.
func (m *Machine) firstToHear(c Commit) []slot.PeerID {
	before := m.chain.electorate()
	all := union(peersOf(before), peersOf(c.Record.Members), []slot.PeerID{m.cfg.Self})
	if len(all) <= directMost || c.Record.Kind == slot.Fork {
		return all
	}
	return append(passesTo(audience(m.cfg.Self, before, c.Record), m.cfg.Self), m.cfg.Self)
}

// passesTo is to whom one of a large audience passes a COMMIT on.
func passesTo(all []slot.PeerID, p slot.PeerID) []slot.PeerID {
	i := slices.Index(all, p)
	if i < 0 || len(all) <= directMost {
		return nil
	}
	first := min(i*commitFan+1, len(all))
	return slices.Clone(all[first:min(first+commitFan, len(all))])
}

// passOn sends on what the peer before this one in the order sent. Who catches up, and asked for it, has nobody wait for it.
func (m *Machine) passOn(from slot.PeerID, before []slot.Member, c Commit) {
	if c.Record.Kind == slot.Fork || len(before)+len(c.Record.Members) <= directMost {
		return
	}
	all := audience(m.open.leader(c.Certificate.Ballot).Peer, before, c.Record)
	if slices.Contains(passesTo(all, from), m.cfg.Self) {
		m.send(c, passesTo(all, m.cfg.Self)...)
	}
}

// askOrAwait asks a peer that shows a longer chain for what follows the tip. If that is the one record that is being passed on, it is on its way: all
// would else ask the first who has it, which is the leader. Who gets it from nobody within Timing.Retry asks then.
func (m *Machine) askOrAwait(p slot.PeerID, height uint64) {
	if height != m.chain.height()+1 || len(m.chain.electorate()) <= directMost || !m.elector() {
		m.ask(p)
		return
	}
	if n := &m.need; n.from != height {
		n.from, n.at, n.times = height, m.now, 0
	}
}
