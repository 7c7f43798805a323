package chain

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ErrInvalid is wrapped by every reason why a record, plan or offer breaks the rules of its chain.
var ErrInvalid = errors.New("breaks the rules of the ledger")

// Invalid makes an error that wraps ErrInvalid.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Check says whether a record may follow the tip. It is a pure function of the chain and the rules,
// without clock or presence: voters ask it before they vote, and so does every peer that is shown a
// certificate.
func (c *Chain) Check(r slot.Record) error {
	tip := c.Tip()
	switch {
	case r.Run != c.rules.Run:
		return Invalid("the record belongs to run %s", r.Run.Short())
	case r.Height != c.Height()+1 || r.Prev != c.TipHash():
		return Invalid("the record at height %d does not follow the tip at height %d", r.Height, c.Height())
	case c.Closed():
		return Invalid("the run is closed")
	}
	work := c.WorkAfter(r.Kind, r.Contributions)
	if r.Kind == slot.Fork {
		work = c.WorkOfFork(r.Members)
	}
	if r.Work != work {
		return Invalid("work %d, %d expected", r.Work, work)
	}
	if r.Kind == slot.Step { // first: what members earn is reckoned from its contributions
		if err := c.checkStep(r); err != nil {
			return err
		}
	}
	if err := c.checkMembers(r); err != nil {
		return err
	}
	switch {
	case r.Kind == slot.Step:
		return nil
	case r.Slot != tip.Slot:
		return Invalid("a %s record moved the slot from %d to %d", r.Kind, tip.Slot, r.Slot)
	case r.Fragment != 0 || r.Usual != 0 || len(r.Contributions) > 0 || len(r.Segments) > 0:
		return Invalid("a %s record with an outcome", r.Kind)
	case tip.Height == 0:
		return c.rules.checkFounding(r)
	case r.Kind == slot.Access:
		return c.CheckAccess(r)
	case !r.Key.IsZero() || len(r.Decisions) > 0:
		return Invalid("a %s record with decisions", r.Kind)
	}
	return nil
}

// checkFounding enforces what the record at height 1 must look like.
func (r Rules) checkFounding(record slot.Record) error {
	founders := 0
	for _, m := range record.Members {
		if r.MayFound(m.Peer) {
			founders++
		}
	}
	switch {
	case record.Kind != slot.Fork:
		return Invalid("a %s record at height %d", record.Kind, record.Height)
	case !r.InitRoot.IsZero() && record.StateRoot != r.InitRoot:
		return Invalid("a founding on state %s; the run spec wants %s", record.StateRoot, r.InitRoot)
	case founders < len(record.Members) || 2*founders <= len(r.Founders):
		return Invalid("a founding by %d peers, %d of them founders; more than half of the %d founders must sign it, "+
			"and nobody else", len(record.Members), founders, len(r.Founders))
	case !record.Key.IsZero() || len(record.Decisions) > 0:
		return Invalid("a %s record with decisions", record.Kind)
	}
	return nil
}

// checkMembers enforces order, seniority and growth. Growth (HOLES H13, H14): the old members in
// the list are a quorum of it, so that newcomers, one and all, can be lost or leave without
// stopping the run.
func (c *Chain) checkMembers(r slot.Record) error {
	if n := len(r.Members); n == 0 || n > slot.MaxMembers {
		return Invalid("%d members", n)
	}
	for i, m := range r.Members {
		if i > 0 && r.Members[i-1].Peer >= m.Peer {
			return Invalid("members are not sorted")
		}
		if c.access.BarredBy(r, m.Peer) {
			return Invalid("%s is a member and was removed", m.Peer.Short())
		}
	}
	if err := c.checkSettled(r); err != nil {
		return err
	}
	switch {
	case r.Kind == slot.Fork:
		return c.checkFork(r)
	case c.Height() == 0:
	case !c.rules.Grows(c.Electorate(), r.Electors()):
		return Invalid("too few of the %d members were members before", len(r.Members))
	}
	return nil
}

// standing describes what a record says of a member.
func standing(m slot.Member) string {
	return fmt.Sprintf("a member since %d, with credit %d and its seat since %d", m.Since, m.Credit, m.Seat)
}

// TakesStep says whether a step may come next: not before the founding, after the end, or without
// the peers that the run starts with.
func (c *Chain) TakesStep() bool {
	return c.Height() > 0 && !c.Ended() && (c.Tip().Slot > 0 || c.Starts())
}

// Starts says whether the members are as many as the run starts with, or, where the first ones get
// credit for their seats, were so once.
func (c *Chain) Starts() bool {
	return len(c.Members()) >= c.rules.StartPeers || c.rules.Byzantine && c.seating.started
}

// LacksPeers says whether offers wait for more members: the run needs them to start, or a slot to
// close.
func (c *Chain) LacksPeers() bool { return !c.TakesStep() || len(c.Members()) < c.rules.MinPeers }

func (c *Chain) checkStep(r slot.Record) error {
	switch {
	case c.Height() == 0:
		return Invalid("a step before the founding")
	case r.Slot != c.OpenSlot():
		return Invalid("slot %d after slot %d", r.Slot, c.Tip().Slot)
	case c.Ended():
		return Invalid("slot %d is past the run's last", r.Slot)
	case r.Usual != c.UsualWeight():
		return Invalid("a usual weight of %d, %d expected", r.Usual, c.UsualWeight())
	case r.Slot == 1 && !c.Starts():
		return Invalid("slot 1 with %d members: %d must be there first", len(c.Members()), c.rules.StartPeers)
	}
	return c.CheckOutcome(r.Fragment, r.Contributions, r.Segments)
}

// CheckOutcome enforces what a step's contributions and segments must look like: a draft's as well
// as a record's.
func (c *Chain) CheckOutcome(fragment uint32, contributions []slot.Offer, segments []slot.Segment) error {
	if due := c.rules.Fragment(c.OpenSlot()); fragment != due {
		return Invalid("fragment %d in slot %d, which updates fragment %d", fragment, c.OpenSlot(), due)
	}
	if n := len(contributions); n < max(1, c.rules.MinPeers) || n > slot.MaxMembers {
		return Invalid("%d contributors", n)
	}
	for i, o := range contributions {
		if i > 0 && contributions[i-1].Peer >= o.Peer {
			return Invalid("contributions are not sorted")
		}
		if !c.MayContribute(o.Peer) {
			return Invalid("%s contributes and is no member", o.Peer.Short())
		}
		if err := c.CheckOffer(o); err != nil {
			return err
		}
	}
	return c.checkSegments(len(contributions), segments)
}

// MayContribute says whether a peer was a member at any time since the open slot began: its
// reduction outlives records that change only the members. The contribution of a lost peer still
// counts, that of a removed peer does not.
func (c *Chain) MayContribute(p slot.PeerID) bool {
	return !c.access.Removed(p) && c.recent.lists(p)
}

// CheckOffer says whether an offer may enter the open slot. A sequence number is spent once (HOLES
// H24).
func (c *Chain) CheckOffer(o slot.Offer) error {
	switch s := c.OpenSlot(); {
	case o.Slot != s:
		return Invalid("an offer for slot %d in slot %d", o.Slot, s)
	case o.Base >= s || o.Base+c.rules.MaxStaleness < s-1:
		return Invalid("an offer from slot %d is too stale for slot %d", o.Base, s)
	case o.Seq <= c.SpentSeq(o.Peer):
		return Invalid("offer %d of %s is spent", o.Seq, o.Peer.Short())
	case o.Weight == 0 || c.rules.MaxWeight > 0 && o.Weight > c.rules.MaxWeight:
		return Invalid("an offer of weight %d", o.Weight)
	case !slot.IsNormSq(o.NormSq):
		return Invalid("an offer whose squared norm is %v", o.NormSq)
	}
	return nil
}

// checkSegments checks that the segments cover the open slot's fragment in order, that each has
// contributors, and that each contributor is in one.
func (c *Chain) checkSegments(contributors int, segments []slot.Segment) error {
	if n := len(segments); n == 0 || n > slot.MaxSegments {
		return Invalid("%d segments", n)
	}
	all, at := slot.NewBitmap(contributors), uint64(0)
	for _, s := range segments {
		if s.Range.Begin != at || s.Range.End <= at {
			return Invalid("segments do not join at element %d", at)
		}
		at = s.Range.End
		if !s.Contributors.Fits(contributors) || s.Contributors.Count() < max(1, c.rules.MinPeers) {
			return Invalid("a set of %d contributors in %d bytes, over %d", s.Contributors.Count(), len(s.Contributors),
				contributors)
		}
		if err := c.rules.CheckMarks(s); err != nil {
			return err
		}
		for i := range all {
			all[i] |= s.Contributors[i]
		}
	}
	if elements := c.rules.Elements(c.OpenSlot()); at != elements {
		return Invalid("segments end at element %d of %d", at, elements)
	}
	if all.Count() != contributors {
		return Invalid("a contributor is in no segment")
	}
	return nil
}
