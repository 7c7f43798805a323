package chain

import (
	"fmt"
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Access is what the records of a chain say about the peers that may be members. Like everything in
// this package it is a pure function of the records.
type Access struct {
	ever    map[slot.PeerID]bool    // were members, or contributed
	removed map[slot.PeerID]Removal // may not be members, since a decision
	// the number of decisions about each peer; that of rotations is under the empty ID
	turns map[slot.PeerID]uint64
	// of the secret in force; zero: the one that the run was founded with
	key    slot.Root
	keys   map[slot.Root]bool // all that ever were
	newest slot.Root          // hash of the newest access record; zero while there is none
}

// Removal is the record that removed a peer.
type Removal struct {
	Height uint64
	Record slot.Root // its hash
}

// String names the record.
func (r Removal) String() string {
	return fmt.Sprintf("record %s at height %d", r.Record.Short(), r.Height)
}

func newAccess() *Access {
	return &Access{
		ever: map[slot.PeerID]bool{}, removed: map[slot.PeerID]Removal{}, turns: map[slot.PeerID]uint64{},
		keys: map[slot.Root]bool{{}: true},
	}
}

func (a *Access) clone() *Access {
	b := *a
	b.ever, b.removed, b.turns = maps.Clone(a.ever), maps.Clone(a.removed), maps.Clone(a.turns)
	b.keys = maps.Clone(a.keys)
	return &b
}

// Ever says whether a record lists a peer. It stays admitted to a private run for ever.
func (a *Access) Ever(p slot.PeerID) bool { return a.ever[p] }

// Removed says whether a decision keeps a peer from being a member.
func (a *Access) Removed(p slot.PeerID) bool { return a.removed[p] != Removal{} }

// RemovedBy returns the record of that decision; zero while there is none.
func (a *Access) RemovedBy(p slot.PeerID) Removal { return a.removed[p] }

// Turn counts the decisions about a peer; under no name, the rotations of the secret.
func (a *Access) Turn(p slot.PeerID) uint64 { return a.turns[p] }

// Key names the secret in force; zero: the one that the run was founded with.
func (a *Access) Key() slot.Root { return a.key }

// Used says whether a secret is or was in force.
func (a *Access) Used(key slot.Root) bool { return a.keys[key] }

// Newest returns the hash of the newest access record, or zero while there is none.
func (a *Access) Newest() slot.Root { return a.newest }

// follow takes in whom the next record lists, and what it decides.
func (a *Access) follow(r slot.Record, hash slot.Root) {
	for _, o := range r.Contributions { // also of members that went before their slot was decided
		a.ever[o.Peer] = true
	}
	for _, e := range r.Members {
		a.ever[e.Peer] = true
	}
	if r.Kind != slot.Access {
		return
	}
	a.newest = hash
	for _, d := range r.Decisions {
		switch d.Action {
		case slot.Remove:
			a.removed[d.Peer] = Removal{Height: r.Height, Record: hash}
		case slot.Readmit:
			delete(a.removed, d.Peer)
		case slot.Rotate: // its turn goes by the key
			continue
		}
		a.turns[d.Peer]++
	}
	if !r.Key.IsZero() {
		a.key = r.Key
		a.keys[r.Key] = true
		a.turns[""]++
	}
}

// CanDecide says whether an action about a peer can be decided after the tip.
func (a *Access) CanDecide(action slot.Action, p slot.PeerID) bool {
	switch action {
	case slot.Remove:
		return !a.Removed(p)
	case slot.Readmit:
		return a.Removed(p)
	case slot.Rotate:
		return true
	}
	return false
}

// BarredBy says whether a record may not list a peer, because of an earlier decision or one of its
// own.
func (a *Access) BarredBy(r slot.Record, p slot.PeerID) bool {
	barred := a.Removed(p)
	for _, d := range r.Decisions {
		if d.Peer == p {
			barred = d.Action == slot.Remove
		}
	}
	return barred
}

// CheckAccess enforces what an access record must look like. VerifyMotions checks the signatures of
// its motions, which costs more.
func (pos *position) CheckAccess(r slot.Record) error {
	if n := len(r.Decisions); n == 0 || n > slot.MaxDecisions || pos.Ended() {
		return Invalid("an access record with %d decisions", n)
	}
	renew := false
	for i, d := range r.Decisions {
		if i > 0 && r.Decisions[i-1].Compare(d) >= 0 {
			return Invalid("decisions are not sorted")
		}
		if err := pos.checkDecision(d, r.Height); err != nil {
			return err
		}
		renew = renew || d.Action != slot.Readmit
	}
	switch renew = renew && pos.rules.Private; {
	case renew && pos.access.keys[r.Key]:
		return Invalid("an access record that gives the run no new secret")
	case !renew && !r.Key.IsZero():
		return Invalid("an access record with a secret that nobody asked for")
	}
	return nil
}

// checkDecision checks that a decision is possible, that its turn is now, and that motions of a
// quorum of those that decide about the peer ask for it.
func (pos *position) checkDecision(d slot.Decision, height uint64) error {
	switch {
	case (d.Action == slot.Rotate) != (d.Peer == "") || d.Action == slot.Rotate && !pos.rules.Private ||
		!pos.access.CanDecide(d.Action, d.Peer):
		return Invalid("a decision to %s peer %q", d.Action, d.Peer.Short())
	case d.Turn != pos.access.turns[d.Peer]:
		return Invalid("a decision by orders of turn %d in turn %d", d.Turn, pos.access.turns[d.Peer])
	}
	deciders := pos.Deciders(d.Peer)
	// a record stays small enough to be sent
	if n, most := len(d.Motions), pos.rules.Votes(len(deciders)); n > most {
		return Invalid("a decision with %d orders, where %d do", n, most)
	}
	ordered := map[slot.PeerID]bool{}
	for i, o := range d.Motions {
		if i > 0 && d.Motions[i-1].Peer >= o.Peer || slot.Find(deciders, o.Peer) < 0 ||
			!d.Motion(o.From).CountsAt(height) {
			return Invalid("a decision with an order of %s that does not count", o.Peer.Short())
		}
		ordered[o.Peer] = true
	}
	if !pos.rules.Quorum(deciders, func(e slot.Member) bool { return ordered[e.Peer] }) {
		return Invalid("%d of %d members ordered to %s %s: too few", len(ordered), len(deciders), d.Action,
			d.Peer.Short())
	}
	return nil
}

// Deciders lists the electors whose orders about a peer count: a quorum of them decides. Where
// members may lie, an elector has no say in its own removal: it would stand in the way of it as if
// it were honest. Of fewer than four electors all count, because they withstand no liar anyway, and
// the second of two or three could remove the first one by itself otherwise.
func (pos *position) Deciders(about slot.PeerID) []slot.Member {
	if !pos.rules.byzantineAt(len(pos.Electorate())) {
		return pos.Electorate()
	}
	return slices.DeleteFunc(slices.Clone(pos.Electorate()), func(e slot.Member) bool { return e.Peer == about })
}

// VerifyMotions says whether the motions in a record, if there are any, carry the signatures of the
// peers that they name. Check comes first.
func (pos *position) VerifyMotions(r slot.Record, verify slot.Verifier) error {
	for _, d := range r.Decisions {
		for _, o := range d.Motions {
			by := pos.Electorate()[slot.Find(pos.Electorate(), o.Peer)]
			data := slot.SignedBytes(slot.TypeMotion, pos.rules.Run, by.Peer, by.Incarnation,
				d.Motion(o.From).Append(nil))
			if !verify(o.Peer, data, o.Sig) {
				return Invalid("an order of %s with a wrong signature", o.Peer.Short())
			}
		}
	}
	return nil
}

// RemovedPeers lists the peers that may not be members, sorted.
func (a *Access) RemovedPeers() (ps []slot.PeerID) {
	for p := range a.removed {
		ps = append(ps, p)
	}
	slices.Sort(ps)
	return ps
}
