package report

import (
	"cmp"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// Ledger turns the ledger's events into those of the node. It changes nothing.
type Ledger struct {
	run    string
	id     slot.Root
	params allreduce.Params
	emit   func(name string, fields map[string]any)
	times  slotTimes
}

// NewLedger makes events of a run's ledger, of which params are what the all-reduce goes by.
func NewLedger(run string, id slot.Root, params allreduce.Params, emit func(string, map[string]any)) *Ledger {
	return &Ledger{run: run, id: id, params: params, emit: emit}
}

// Exchange returns how long the exchange of slots takes.
func (l *Ledger) Exchange() ExchangeStatus { return l.times.exchange() }

// Tell makes an event. It is called from the driver's loop and does not block.
func (l *Ledger) Tell(e membership.Event) {
	fields := map[string]any{}
	switch e.Kind {
	case membership.EventFounded:
		fields["run"], fields["run_id"] = l.run, l.id
	case membership.EventJoined:
		fields["slot"] = e.Slot
	case membership.EventPlanned:
		fields["slot"], fields["ballot"], fields["members"], fields["leader"] = e.Slot, e.Ballot, e.Members, e.Peer
		fields["schedule"] = cmp.Or(e.Detail, string(allreduce.Rotation))
		l.expect(e, fields)
	case membership.EventCommitted:
		fields["slot"], fields["ballot"], fields["members"] = e.Slot, e.Ballot, e.Members
		fields["contributors"], fields["outcome_root"], fields["height"] = e.Contributors, e.Root, e.Height
		l.times.decided(e.Slot)
	case membership.EventDrafted:
		fields["height"], fields["kind"], fields["slot"], fields["ballot"] = e.Height, e.RecordKind.String(), e.Slot,
			e.Ballot
	case membership.EventProposed, membership.EventCertified:
		fields["height"], fields["kind"], fields["slot"], fields["ballot"] = e.Height, e.RecordKind.String(), e.Slot,
			e.Ballot
		fields["record"], fields["prev"], fields["certified_root"] = e.Record, e.Prev, e.State
	case membership.EventMembers:
		fields["slot"], fields["height"], fields["members"] = e.Slot, e.Height, e.Members
	case membership.EventSuspected, membership.EventLeft, membership.EventEvicted, membership.EventCloned,
		membership.EventRefused:
		fields["about"], fields["detail"] = e.Peer, e.Detail
	case membership.EventMotion, membership.EventRemoved, membership.EventReadmitted, membership.EventRotated:
		if e.Peer != "" {
			fields["about"] = e.Peer
		}
		fields["height"], fields["detail"] = e.Height, e.Detail
	case membership.EventDiverged:
		fields["slot"], fields["state_root"], fields["certified_root"], fields["detail"] = e.Slot, e.State, e.Root,
			e.Detail
	case membership.EventForked, membership.EventSwitched:
		fields["slot"], fields["height"], fields["members"] = e.Slot, e.Height, e.Members
		fields["record"], fields["detail"] = e.Root, e.Detail
	case membership.EventPaused, membership.EventResumed, membership.EventDone:
		fields["slot"], fields["detail"] = e.Slot, e.Detail
	}
	l.emit(string(e.Kind), fields)
}

// expect adds to the event of a plan how long the plan should take.
func (l *Ledger) expect(e membership.Event, fields map[string]any) {
	estimate := l.params.Estimate(*e.Plan, e.Links)
	l.times.planned(e.Slot, estimate)
	if estimate.Takes > 0 {
		fields["expected_seconds"] = estimate.Takes.Seconds()
	}
	if estimate.Relayed > 0 {
		fields["relayed_bytes"] = estimate.Relayed
	}
}
