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

// Check says whether a record may follow the tip, if it is decided in a ballot. It is a pure
// function of the chain and the rules, without clock or presence: voters ask it of a draft, and so
// does every peer that is shown a certificate, which names the ballot. What is valid in one ballot
// is valid in all higher ones.
func (pos *position) Check(r slot.Record, ballot uint32) error {
	tip := pos.tip
	switch {
	case r.Run != pos.rules.Run:
		return Invalid("the record belongs to run %s", r.Run.Short())
	case r.Height != pos.tip.Height+1 || r.Prev != pos.tipHash:
		return Invalid("the record at height %d does not follow the tip at height %d", r.Height, pos.tip.Height)
	case pos.Closed():
		return Invalid("the run is closed")
	}
	if work := pos.WorkAfter(r.Kind, r.Contributions); r.Work != work {
		return Invalid("work %d, %d expected", r.Work, work)
	}
	if r.Kind == slot.Step { // first: what members earn is reckoned from its contributions
		if err := pos.checkStep(r, ballot); err != nil {
			return err
		}
	}
	if err := pos.checkMembers(r); err != nil {
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
		return pos.rules.checkFounding(r)
	case r.Kind == slot.Access:
		return pos.CheckAccess(r)
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
func (pos *position) checkMembers(r slot.Record) error {
	if n := len(r.Members); n == 0 || n > slot.MaxMembers {
		return Invalid("%d members", n)
	}
	for i, m := range r.Members {
		if i > 0 && r.Members[i-1].Peer >= m.Peer {
			return Invalid("members are not sorted")
		}
		if pos.access.BarredBy(r, m.Peer) {
			return Invalid("%s is a member and was removed", m.Peer.Short())
		}
	}
	if err := pos.checkSettled(r); err != nil {
		return err
	}
	switch {
	case r.Kind == slot.Fork:
		return pos.checkFork(r)
	case pos.tip.Height == 0:
	case !pos.rules.Grows(pos.Electorate(), r.Electors()):
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
func (pos *position) TakesStep() bool {
	return pos.tip.Height > 0 && !pos.Ended() && (pos.tip.Slot > 0 || pos.Starts())
}

// Starts says whether the members are as many as the run starts with, or, where the first ones get
// credit for their seats, were so once.
func (pos *position) Starts() bool {
	return len(pos.Members()) >= pos.rules.StartPeers || pos.rules.Byzantine && pos.seating.started
}

// LacksPeers says whether offers wait for more members: the run needs them to start, or a slot to
// close.
func (pos *position) LacksPeers() bool {
	return !pos.TakesStep() || len(pos.Members()) < pos.rules.MinPeers
}

func (pos *position) checkStep(r slot.Record, ballot uint32) error {
	switch {
	case pos.tip.Height == 0:
		return Invalid("a step before the founding")
	case r.Slot != pos.OpenSlot():
		return Invalid("slot %d after slot %d", r.Slot, pos.tip.Slot)
	case pos.Ended():
		return Invalid("slot %d is past the run's last", r.Slot)
	case r.Usual != pos.UsualWeight():
		return Invalid("a usual weight of %d, %d expected", r.Usual, pos.UsualWeight())
	case r.Slot == 1 && !pos.Starts():
		return Invalid("slot 1 with %d members: %d must be there first", len(pos.Members()), pos.rules.StartPeers)
	}
	if due := pos.rules.Fragment(pos.OpenSlot()); r.Fragment != due {
		return Invalid("fragment %d in slot %d, which updates fragment %d", r.Fragment, pos.OpenSlot(), due)
	}
	if n := len(r.Contributions); n < max(1, pos.rules.MinPeers) || n > slot.MaxMembers {
		return Invalid("%d contributors", n)
	}
	for i, o := range r.Contributions {
		if i > 0 && r.Contributions[i-1].Peer >= o.Peer {
			return Invalid("contributions are not sorted")
		}
		if !pos.MayContribute(o.Peer) {
			return Invalid("%s contributes and is no member", o.Peer.Short())
		}
		if err := pos.CheckOffer(o); err != nil {
			return err
		}
	}
	if err := pos.checkSegments(len(r.Contributions), r.Segments); err != nil {
		return err
	}
	return pos.checkSets(r, ballot)
}

// MayContribute says whether a peer was a member at any time since the open slot began: its
// reduction outlives records that change only the members. The contribution of a lost peer still
// counts, that of a removed peer does not.
func (pos *position) MayContribute(p slot.PeerID) bool {
	return !pos.access.Removed(p) && pos.recent.lists(p)
}

// CheckOffer says whether an offer may enter the open slot. A sequence number is spent once (HOLES
// H24).
func (pos *position) CheckOffer(o slot.Offer) error {
	switch s := pos.OpenSlot(); {
	case o.Slot != s:
		return Invalid("an offer for slot %d in slot %d", o.Slot, s)
	case o.Base >= s || o.Base+pos.rules.MaxStaleness < s-1:
		return Invalid("an offer from slot %d is too stale for slot %d", o.Base, s)
	case o.Seq <= pos.SpentSeq(o.Peer):
		return Invalid("offer %d of %s is spent", o.Seq, o.Peer.Short())
	case o.Weight == 0 || pos.rules.MaxWeight > 0 && o.Weight > pos.rules.MaxWeight:
		return Invalid("an offer of weight %d", o.Weight)
	case !slot.IsNormSq(o.NormSq):
		return Invalid("an offer whose squared norm is %v", o.NormSq)
	}
	return nil
}

// checkSegments checks that the segments cover the open slot's fragment in order, that each has
// contributors, and that each contributor is in one.
func (pos *position) checkSegments(contributors int, segments []slot.Segment) error {
	if n := len(segments); n == 0 || n > slot.MaxSegments {
		return Invalid("%d segments", n)
	}
	all, at := slot.NewBitmap(contributors), uint64(0)
	for _, s := range segments {
		if s.Range.Begin != at || s.Range.End <= at {
			return Invalid("segments do not join at element %d", at)
		}
		at = s.Range.End
		if !s.Contributors.Fits(contributors) || s.Contributors.Count() < max(1, pos.rules.MinPeers) {
			return Invalid("a set of %d contributors in %d bytes, over %d", s.Contributors.Count(), len(s.Contributors),
				contributors)
		}
		for i := range all {
			all[i] |= s.Contributors[i]
		}
	}
	if elements := pos.rules.Elements(pos.OpenSlot()); at != elements {
		return Invalid("segments end at element %d of %d", at, elements)
	}
	if all.Count() != contributors {
		return Invalid("a contributor is in no segment")
	}
	return nil
}

// checkSets bounds the newcomers in the set of each segment (V13), and asks for the electors that
// no set may lack (V12).
func (pos *position) checkSets(r slot.Record, ballot uint32) error {
	share, included := pos.Share(r.Contributions), pos.Inclusion(ballot)
	for _, s := range r.Segments {
		if n, others, most := share.Counts(s.Contributors); n > most {
			return Invalid("elements %d to %d have contributions of %d newcomers beside %d others; %d are the most",
				s.Range.Begin, s.Range.End, n, others, most)
		}
		if !included.Holds(r.Contributions, s.Contributors) {
			return Invalid("elements %d to %d lack contributions of electors that contributed lately: %d of these are "+
				"the fewest in term %d", s.Range.Begin, s.Range.End, included.least, slot.Ref{Ballot: ballot}.Term())
		}
	}
	return nil
}
