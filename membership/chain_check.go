package membership

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ErrInvalid is wrapped by every reason why a record, plan or offer breaks the rules of its chain.
var ErrInvalid = errors.New("breaks the rules of the ledger")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// check says whether a record may follow the tip. It is a pure function of the chain and the rules, without clock or presence:
// voters ask it before they vote, and so does everybody who is shown a certificate.
func (c *chain) check(r slot.Record) error {
	tip := c.tip()
	switch {
	case r.Run != c.rules.Run:
		return invalid("the record belongs to run %s", r.Run.Short())
	case r.Height != c.height()+1 || r.Prev != c.tipHash():
		return invalid("the record at height %d does not follow the tip at height %d", r.Height, c.height())
	case c.closed():
		return invalid("the run is closed")
	}
	work := c.workAfter(r.Kind, r.Contributions)
	if r.Kind == slot.Fork {
		work = c.workOfFork(r.Members)
	}
	if r.Work != work {
		return invalid("work %d, %d expected", r.Work, work)
	}
	if err := c.checkMembers(r); err != nil {
		return err
	}
	switch {
	case r.Kind == slot.Step:
		return c.checkStep(r)
	case r.Slot != tip.Slot:
		return invalid("a %s record moved the slot from %d to %d", r.Kind, tip.Slot, r.Slot)
	case r.Fragment != 0 || len(r.Contributions) > 0 || len(r.Segments) > 0:
		return invalid("a %s record with an outcome", r.Kind)
	case tip.Height == 0 && r.Kind != slot.Fork:
		return invalid("a %s record at height %d", r.Kind, r.Height)
	case tip.Height == 0 && !c.rules.InitRoot.IsZero() && r.StateRoot != c.rules.InitRoot:
		return invalid("a founding on state %s; the run spec wants %s", r.StateRoot, c.rules.InitRoot)
	case r.Kind == slot.Access:
		return c.checkAccess(r)
	case !r.Key.IsZero() || len(r.Decisions) > 0:
		return invalid("a %s record with decisions", r.Kind)
	}
	return nil
}

// checkMembers enforces order, seniority and growth. Growth (HOLES H13, H14): the old members in the list are a quorum of it,
// so that newcomers, one and all, can be lost or leave without stopping the run.
func (c *chain) checkMembers(r slot.Record) error {
	if n := len(r.Members); n == 0 || n > slot.MaxMembers {
		return invalid("%d members", n)
	}
	for i, m := range r.Members {
		if i > 0 && r.Members[i-1].Peer >= m.Peer {
			return invalid("members are not sorted")
		}
		if want := c.listed(m.Peer, m.Incarnation); m != want {
			return invalid("%s is a member since %d, not %d", m.Peer.Short(), want.Since, m.Since)
		}
		if c.access.barredBy(r, m.Peer) {
			return invalid("%s is a member and was removed", m.Peer.Short())
		}
	}
	switch stay := c.stays(r.Members); {
	case c.height() == 0:
	case r.Kind == slot.Fork:
		if stay != 0 && stay != len(r.Members) {
			return invalid("a fork by %d members and %d others: members fork alone, and others only without any", stay, len(r.Members)-stay)
		}
	case !grows(c.electorate(), r.Members):
		return invalid("too few of the %d members were members before", len(r.Members))
	}
	return nil
}

// grows says whether the old members in next are a quorum of it.
func grows(old, next []slot.Member) bool {
	return slot.Quorum(next, func(m slot.Member) bool {
		_, ok := findMember(old, m.Peer, m.Incarnation)
		return ok
	})
}

// takesStep says whether a step may come next: not before the founding, after the end, or without the peers that the run starts
// with.
func (c *chain) takesStep() bool {
	return c.height() > 0 && !c.ended() && (c.tip().Slot > 0 || len(c.electorate()) >= c.rules.StartPeers)
}

// lacks says whether offers wait for more members: for those that the run starts with, or that a slot needs to close.
func (c *chain) lacks() bool { return !c.takesStep() || len(c.electorate()) < c.rules.MinPeers }

func (c *chain) checkStep(r slot.Record) error {
	switch {
	case c.height() == 0:
		return invalid("a step before the founding")
	case r.Slot != c.openSlot():
		return invalid("slot %d after slot %d", r.Slot, c.tip().Slot)
	case c.ended():
		return invalid("slot %d is past the run's last", r.Slot)
	case r.Slot == 1 && len(c.electorate()) < c.rules.StartPeers:
		return invalid("slot 1 with %d members: %d must be there first", len(c.electorate()), c.rules.StartPeers)
	}
	return c.checkOutcome(r.Fragment, r.Contributions, r.Segments)
}

// checkOutcome enforces what a step's contributions and segments must look like: a draft's as well as a record's.
func (c *chain) checkOutcome(fragment uint32, contributions []slot.Offer, segments []slot.Segment) error {
	if due := c.rules.fragment(c.openSlot()); fragment != due {
		return invalid("fragment %d in slot %d, which updates fragment %d", fragment, c.openSlot(), due)
	}
	if n := len(contributions); n < max(1, c.rules.MinPeers) || n > slot.MaxMembers {
		return invalid("%d contributors", n)
	}
	for i, o := range contributions {
		if i > 0 && contributions[i-1].Peer >= o.Peer {
			return invalid("contributions are not sorted")
		}
		if !c.mayContribute(o.Peer) {
			return invalid("%s contributes and is no member", o.Peer.Short())
		}
		if err := c.checkOffer(o); err != nil {
			return err
		}
	}
	return c.checkSegments(len(contributions), segments)
}

// mayContribute says whether a peer was a member at any time since the open slot began: its reduction outlives records that change
// the members alone, and what a peer gave before it was lost counts; before it was removed, not.
func (c *chain) mayContribute(p slot.PeerID) bool {
	if c.access.removed[p] {
		return false
	}
	for h := c.height(); h > 0; h-- {
		r := c.at(h)
		if slot.Find(r.Members, p) >= 0 {
			return true
		}
		if !r.Kind.KeepsSlot() {
			return false
		}
	}
	return false
}

// checkOffer says whether an offer may enter the open slot. A sequence number is spent once (HOLES H24).
func (c *chain) checkOffer(o slot.Offer) error {
	switch s := c.openSlot(); {
	case o.Slot != s:
		return invalid("an offer for slot %d in slot %d", o.Slot, s)
	case o.Base >= s || o.Base+c.rules.MaxStaleness < s-1:
		return invalid("an offer from slot %d is too stale for slot %d", o.Base, s)
	case o.Seq <= c.spent[o.Peer].seq:
		return invalid("offer %d of %s is spent", o.Seq, o.Peer.Short())
	case o.Weight == 0 || c.rules.MaxWeight > 0 && o.Weight > c.rules.MaxWeight:
		return invalid("an offer of weight %d", o.Weight)
	}
	return nil
}

// checkSegments: they cover the open slot's fragment in order, each has contributors, and each contributor is in one.
func (c *chain) checkSegments(contributors int, segments []slot.Segment) error {
	if n := len(segments); n == 0 || n > slot.MaxSegments {
		return invalid("%d segments", n)
	}
	all, at := slot.NewBitmap(contributors), uint64(0)
	for _, s := range segments {
		if s.Range.Begin != at || s.Range.End <= at {
			return invalid("segments do not join at element %d", at)
		}
		at = s.Range.End
		if !s.Contributors.Fits(contributors) || s.Contributors.Count() < max(1, c.rules.MinPeers) {
			return invalid("a set of %d contributors in %d bytes, over %d", s.Contributors.Count(), len(s.Contributors), contributors)
		}
		for i := range all {
			all[i] |= s.Contributors[i]
		}
	}
	if elements := c.rules.elements(c.openSlot()); at != elements {
		return invalid("segments end at element %d of %d", at, elements)
	}
	if all.Count() != contributors {
		return invalid("a contributor is in no segment")
	}
	return nil
}
