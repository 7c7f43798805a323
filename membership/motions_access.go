package membership

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// accessDue says whether a quorum's motions wait to be recorded.
func (mo *motions) accessDue() bool {
	return len(mo.ready) > 0 && mo.chain.Height() > 0 && !mo.chain.Ended()
}

// draftsAccess says whether this peer, as the leader, can record them now: it has the next secret
// where that must change, and the last try is a while ago. A leader that is to be removed leaves it
// to others: it would know the secret.
func (mo *motions) draftsAccess() bool {
	return mo.accessDue() && !mo.barred(mo.cfg.Self) && mo.now-mo.pauseAt >= 4*mo.cfg.Timing.Patience &&
		(!mo.renews() || !mo.chain.Access().Used(mo.key))
}

// renews says whether the decisions that are ready change the secret.
func (mo *motions) renews() bool {
	return mo.chain.Rules().Private && slices.ContainsFunc(mo.ready,
		func(d slot.Decision) bool { return d.Action != slot.Readmit })
}

// accessRecord returns what the motions make of the next record.
func (mo *motions) accessRecord() slot.Record {
	r := slot.Record{Kind: slot.Access, Decisions: slices.Clone(mo.ready)}
	if mo.renews() {
		r.Key = mo.key
	}
	return r
}

// stand says whether a quorum still wants all of some decisions.
func (mo *motions) stand(ds []slot.Decision) bool {
	wanted := func(d slot.Decision) bool {
		return slices.ContainsFunc(mo.ready, func(r slot.Decision) bool { return r.Compare(d) == 0 })
	}
	return !slices.ContainsFunc(ds, func(d slot.Decision) bool { return !wanted(d) })
}

// takenBack says whether a quorum does not want one of some decisions any more, as far as this peer
// knows: an order counts as long as nothing newer of its maker has come about the same peer. A
// leader that lies keeps orders, and would use them when their makers have changed their mind. An
// honest one, which has not heard of that yet, gives its draft up once it has (stand). One that
// orders and takes back in turns holds up nothing that enough others want.
func (mo *motions) takenBack(ds []slot.Decision) bool {
	return slices.ContainsFunc(ds, func(d slot.Decision) bool {
		return !mo.chain.Rules().Quorum(mo.chain.Deciders(d.Peer), func(e slot.Member) bool {
			shown := slices.IndexFunc(d.Motions, func(s slot.SignedMotion) bool { return s.Peer == e.Peer })
			h, held := mo.held[ofMember(e)][d.Peer]
			wants := held && h.motion == d.Motion(h.motion.From)
			if shown >= 0 {
				return !held || wants || h.motion.From < d.Motions[shown].From
			}
			return wants && h.motion.CountsAt(mo.chain.Height()+1)
		})
	})
}

// sendAccess tells the worker which peers may be in the run, once for each change and again where
// that failed.
func (mo *motions) sendAccess() {
	o, a := &mo.motionState, mo.chain.Access()
	if mo.chain.Height() == 0 || o.told != nil && *o.told == a.Newest() || mo.now-o.notifiedAt < 4*mo.cfg.Timing.Retry {
		return
	}
	newest := a.Newest()
	o.told, o.notifiedAt = &newest, mo.now
	mo.work(WorkAccess{Key: a.Key(), From: mo.presence.sources()})
}

// accessFailed: the worker could not do it; it is told again.
func (mo *motions) accessFailed(w WorkAccess) {
	if w.Key == mo.chain.Access().Key() {
		mo.told = nil
	}
}

// checkRecord does chain.Check and verifies the signatures inside the record. Those of one record
// are verified once.
func (mo *motions) checkRecord(r slot.Record, ballot uint32) error {
	if err := mo.chain.Check(r, ballot); err != nil || len(r.Decisions) == 0 {
		return err
	}
	hash := r.Hash()
	if mo.verified == hash {
		return nil
	}
	if err := mo.chain.VerifyMotions(r, mo.cfg.Verify); err != nil {
		return err
	}
	mo.verified = hash
	return nil
}

func (mo *motions) view() (out []MotionView) {
	by := map[slot.Motion][]slot.PeerID{}
	for w, held := range mo.held {
		for _, h := range held {
			if !mo.chain.Access().CanDecide(h.motion.Action, h.motion.Peer) {
				continue // taken back
			}
			k := slot.Motion{Action: h.motion.Action, Peer: h.motion.Peer}
			by[k] = append(by[k], w.peer)
		}
	}
	for k, ps := range by {
		slices.Sort(ps)
		enough := slices.ContainsFunc(mo.ready,
			func(d slot.Decision) bool { return d.Action == k.Action && d.Peer == k.Peer })
		out = append(out, MotionView{Action: k.Action, Peer: k.Peer, By: ps, Enough: enough})
	}
	slices.SortFunc(out, func(a, b MotionView) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action),
			cmp.Compare(a.Peer, b.Peer))
	})
	return out
}

// reportDecisions reports what an access record has decided.
func (mo *motions) reportDecisions(e Event, r slot.Record) {
	kinds := map[slot.Action]EventKind{slot.Remove: EventRemoved, slot.Readmit: EventReadmitted}
	e.Record = r.Hash()
	for _, d := range r.Decisions {
		if kind, about := kinds[d.Action]; about {
			e.Kind, e.Peer, e.Detail = kind, d.Peer,
				fmt.Sprintf("by motions of %d of %d members", len(d.Motions), len(mo.chain.At(r.Height-1).Members))
			mo.event(e)
		}
	}
	if !r.Key.IsZero() {
		e.Kind, e.Peer, e.Detail = EventRotated, "",
			"the admission secret has changed: tickets from before admit nobody"
		mo.event(e)
	}
}

// MotionView shows what some members want done about the membership of a peer.
type MotionView struct {
	Action slot.Action
	Peer   slot.PeerID   // empty: of a rotation
	By     []slot.PeerID // sorted
	Enough bool          // a quorum wants it, and its record is on the way
}
