package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// View is a copy of what status pages and the node need to know of a machine.
type View struct {
	Founding slot.Root // hash of the record at height 1; zero while there is no chain
	// how often this peer has switched to another branch since the start: what grew from its old
	// records is void
	ChainSwitches uint64
	Tip           slot.Record
	// hash of the newest record that changed who decides the next ones: the pin of newcomers
	Lasting slot.Root

	Synced      bool // a state is held and not known to be wrong
	Diverged    bool
	Applied     uint64 // height of the newest record applied, if Synced
	AppliedSlot uint64
	StateRoot   slot.Root // root of the state held

	IsMember bool
	Leaving  bool
	Left     bool
	Paused   bool // too few members are heard for a quorum
	NoQuorum bool // the same, or this peer is no member and hears none of them
	TooFew   bool // too few even to go on without a quorum, whatever an operator says
	// why this peer is paused or no member, or which members its run ended without, in plain words
	Reason string
	// why this branch of the run may still end for another one, in plain words; "": no reason
	Provisional string
	// Why this peer cannot go on: a record has removed it, or its identity is used twice, for the
	// reason given
	Expelled bool
	Cloned   string
	Ending   Ending        // how the chain has ended, if it has
	Serves   []slot.PeerID // at the end: who does not show yet that it has the last state
	Linger   time.Duration // for how long they are waited for at most
	Done     bool          // the run is over, and everybody has it or had the time
	// the run is over, and for long no peer was heard that holds its last state, which is not here
	Missed   bool
	Members  []MemberView
	Ref      slot.Ref      // the height being decided, and the ballot followed
	Leader   slot.PeerID   // of that ballot
	Plan     *slot.Plan    // the reduction that runs; never changed once made
	Offered  []slot.PeerID // peers with a known offer for the open slot
	OwnOffer *slot.Offer   // this peer's standing offer
	Reported uint64        // ReportOffers that were taken, whether their offers stand or not
	Pace     chain.Pace    // the members' speeds, by the chain
	Parts    []chain.Part  // of the data, assigned to this peer, by slot

	// names a private run's secret in force; zero: the one it was founded with
	Key     slot.Root
	Removed []slot.PeerID // may not be members, sorted
	Motions []MotionView  // that members have given and that are not decided, in order
}

// Peers are the members that the newest record lists.
func (v View) Peers() []slot.PeerID { return peersOf(v.Tip.Members) }

// Barred are the peers that may not be members any more: evicted, or removed.
func (v View) Barred() []slot.PeerID { return slices.Concat(v.Tip.Evicted, v.Removed) }

// Part is the part that this peer was assigned for a slot. A member has one for the open slot and
// for Rules.Ahead beyond it.
func (v View) Part(s uint64) (part chain.Part, ok bool) {
	for _, p := range v.Parts {
		if p.Slot == s {
			return p, true
		}
	}
	return chain.Part{}, false
}

// MemberView is one member as this peer sees it.
type MemberView struct {
	slot.Member
	Heard       time.Duration // ago
	Lost        bool          // not heard for Timing.Lost
	Leaving     bool
	Contributes bool
	Applied     uint64 // as it last announced
	Slot        uint64
	Steps       uint32
	Uplink      slot.Link // as it last announced
	Claims      []byte    // what it last said of itself, unread
	Synced      bool
	Evicted     bool // for evidence, or by a motion; the next record leaves it out
	// what it fails to do though it is heard, in plain words; "" if it takes part
	Fault     string
	TermsLost int // at the newest 64 heights: it led them, and brought no record
}

// View copies what is visible.
func (m *Machine) View() View {
	s, d := m.model.state, m.open
	v := View{
		Founding: m.chain.Founding(), ChainSwitches: m.switches, Tip: m.chain.Tip(), Lasting: m.chain.Lasting(),
		NoQuorum: m.fork.without, TooFew: m.tooFew(),
		Reason: m.reason(), Provisional: m.whyProvisional(),
		Synced: s.known && !s.diverged, Diverged: s.diverged, Applied: s.height, AppliedSlot: s.slot, StateRoot: s.root,
		IsMember: m.member(), Leaving: m.own.leaving, Left: m.own.left, Paused: m.quorum.paused, Done: m.exit.done,
		Missed: m.exit.missed, Expelled: m.news.expelled, Cloned: m.clones.own,
		Ref: d.position(d.ballot), Leader: d.leader(d.ballot).Peer, Plan: d.plan,
		Offered: offerers(m.presence.offers()), OwnOffer: m.own.mine, Reported: m.own.reported, Pace: m.paced(),
	}
	if v.Ending = m.exit.how(); v.Ending != EndsNot {
		v.Serves, v.Linger = m.exit.unserved(), m.exit.remaining()
	}
	lost := m.chain.TermsLost()
	for _, e := range m.chain.Members() {
		v.Members = append(v.Members, m.viewMember(e))
		v.Members[len(v.Members)-1].TermsLost = lost[e.Peer]
	}
	v.Parts = m.chain.Parts(m.cfg.Self)
	v.Key, v.Removed, v.Motions = m.chain.Access().Key(), m.chain.Access().RemovedPeers(), m.motions.view()
	return v
}

func (m *Machine) viewMember(e slot.Member) MemberView {
	v := MemberView{Member: e, Lost: !m.presence.around(ofMember(e)), Evicted: m.roster.unwelcome(ofMember(e))}
	_, v.Fault = m.turnout.fault(ofMember(e))
	if ofMember(e) == m.self {
		s := m.model.state
		v.Contributes, v.Applied, v.Slot, v.Steps, v.Synced = m.own.contributes, s.height, s.slot, m.own.steps, s.known
		v.Uplink = slot.LinkOf(m.presence.speeds.Uplink)
		v.Leaving = m.own.leaving
		return v
	}
	if a := m.presence.known[ofMember(e)]; a != nil {
		v.Heard, v.Leaving = m.now-a.heard, a.leaving
		if a.alive != nil {
			v.Contributes, v.Applied, v.Slot = a.alive.Contributes, a.alive.Applied, a.alive.Slot
			v.Steps, v.Synced, v.Uplink, v.Claims = a.alive.Steps, a.alive.Synced, a.alive.Uplink, a.alive.Claims
		}
	}
	return v
}

// paced is the chain's pace, made anew once its tip has changed.
func (m *Machine) paced() chain.Pace {
	if tip := m.chain.TipHash(); m.pacedAt != tip {
		m.pacing, m.pacedAt = m.chain.Pace(), tip
	}
	return m.pacing
}

// Access of a peer; of no name: the turn of rotations.
func (m *Machine) Access(p slot.PeerID) PeerAccess {
	a := m.chain.Access()
	return PeerAccess{
		Ever: a.Ever(p), Removed: a.Removed(p), By: a.RemovedBy(p), Barred: m.motions.barred(p), Turn: a.Turn(p),
	}
}

// RemovalText says by what a peer was removed, and what its user can do.
func (s PeerAccess) RemovalText(p slot.PeerID) string {
	by := s.By.String()
	if !s.Removed {
		by = "motions of a quorum, whose record is on the way"
	}
	return fmt.Sprintf(
		"by %s: it can take part again once a quorum of the members has readmitted it (p2pdiloco readmit "+
			"%s), or as a new peer, with a new data directory and, in a private run, a new ticket",
		by,
		p,
	)
}

// PeerAccess is what the chain says of one peer.
type PeerAccess struct {
	Ever    bool          // it was a member at some time
	Removed bool          // it may not be one, since a record said so
	By      chain.Removal // that record; zero: none
	Barred  bool          // the same, or a quorum has ordered it and its record is on the way
	Turn    uint64        // of motions about it that can be made now: see slot.Motion
}
