package p2pdiloco

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// Event is one thing that happened on a node: one line of an events file. docs/reference/events.md
// lists the names and their fields, and a test holds it against the code. They are stable: scripts
// rely on them. Others may come; readers skip the names they do not know.
type Event struct {
	Time   time.Time
	Name   string
	Peer   PeerID // the peer that the event is about
	Fields map[string]any
}

// MarshalJSON makes one flat object of the event.
func (e Event) MarshalJSON() ([]byte, error) {
	m := make(map[string]any, len(e.Fields)+3)
	maps.Copy(m, e.Fields)
	m["time"], m["event"], m["peer"] = e.Time.UTC().Format(time.RFC3339Nano), e.Name, e.Peer
	return json.Marshal(m)
}

// eventSink passes events to the listener, one at a time.
type eventSink struct {
	log *slog.Logger
	on  func(Event) // nil: nobody listens
	mu  sync.Mutex  // held over on
}

// newEvents makes an eventSink; on may be nil.
func newEvents(log *slog.Logger, on func(Event)) *eventSink { return &eventSink{log: log, on: on} }

// Emit passes on an event about a peer.
func (e *eventSink) Emit(peer PeerID, name string, fields map[string]any) {
	e.log.Debug(name, "fields", fields)
	if e.on == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.on(Event{Time: time.Now(), Name: name, Peer: peer, Fields: fields})
}

// ledgerEvents turns the ledger's events into those of the node. It changes nothing.
type ledgerEvents struct {
	run    string
	id     Root
	params allreduce.Params
	emit   func(name string, fields map[string]any)
	times  slotTimes
	lost   lostTerms
}

// newLedgerEvents makes events of a run's ledger, of which params are what the all-reduce goes by.
func newLedgerEvents(run string, id Root, params allreduce.Params, emit func(string, map[string]any)) *ledgerEvents {
	return &ledgerEvents{run: run, id: id, params: params, emit: emit}
}

// Lost returns the terms that were lost.
func (l *ledgerEvents) Lost() LostTerms { return l.lost.terms() }

// Exchange returns how long the exchange of slots takes.
func (l *ledgerEvents) Exchange() ExchangeStatus { return l.times.exchange() }

// Tell makes an event. It is called from the driver's loop and does not block.
func (l *ledgerEvents) Tell(e membership.Event) {
	fields := map[string]any{}
	switch e.Kind {
	case membership.EventFounded:
		fields["run"], fields["run_id"] = l.run, l.id
	case membership.EventJoined:
		fields["run"], fields["run_id"], fields["slot"] = l.run, l.id, e.Slot
	case membership.EventPlanned:
		fields["slot"], fields["ballot"], fields["members"], fields["leader"] = e.Slot, e.Ballot, e.Members, e.Peer
		fields["schedule"] = cmp.Or(e.Detail, string(allreduce.Rotation))
		fields["owners"] = owners(*e.Plan)
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
		fields["electors"] = e.Electors
		if e.Kind == membership.EventCertified {
			l.lost.certified(e.Slot, slot.Ref{Ballot: e.Ballot}.Term())
		}
	case membership.EventMembers:
		fields["slot"], fields["height"], fields["members"] = e.Slot, e.Height, e.Members
	case membership.EventSuspected, membership.EventLeft, membership.EventEvicted, membership.EventCloned,
		membership.EventRefused, membership.EventObjected, membership.EventResigned:
		judged(e, fields)
	case membership.EventShort:
		fields["slot"], fields["members"], fields["detail"] = e.Slot, e.Members, e.Detail
	case membership.EventMotion, membership.EventRemoved, membership.EventReadmitted, membership.EventRotated:
		if e.Peer != "" {
			fields["about"] = e.Peer
		}
		fields["height"], fields["detail"] = e.Height, e.Detail
		if !e.Record.IsZero() {
			fields["record"] = e.Record
		}
	case membership.EventDiverged:
		fields["slot"], fields["state_root"], fields["certified_root"], fields["detail"] = e.Slot, e.State, e.Root,
			e.Detail
	case membership.EventForked, membership.EventConfirmed, membership.EventSwitched:
		fields["slot"], fields["height"], fields["members"] = e.Slot, e.Height, e.Members
		fields["record"], fields["detail"] = e.Root, e.Detail
	case membership.EventPaused, membership.EventResumed:
		fields["slot"], fields["detail"] = e.Slot, e.Detail
	case membership.EventFinal, membership.EventDone:
		fields["slot"], fields["height"], fields["state_root"] = e.Slot, e.Height, e.Root
		fields["run_id"], fields["ends_as"], fields["detail"] = l.id, e.Ending.String(), e.Detail
	}
	l.emit(string(e.Kind), fields)
}

// judged adds to an event about a peer what is said of it.
func judged(e membership.Event, fields map[string]any) {
	fields["about"], fields["detail"] = e.Peer, cmp.Or(e.Detail, string(e.Reason))
	if e.Reason != "" {
		fields["reason"] = string(e.Reason)
	}
	if e.Until > 0 {
		fields["slot"], fields["until"] = e.Slot, e.Until
	}
}

// owners counts the peers that reduce a part of a plan.
func owners(p slot.Plan) int {
	all := map[PeerID]bool{}
	for _, piece := range p.Pieces {
		all[piece.Owner] = true
	}
	return len(all)
}

// expect adds to the event of a plan how long the plan should take.
func (l *ledgerEvents) expect(e membership.Event, fields map[string]any) {
	estimate := l.params.Estimate(*e.Plan, e.Links)
	l.times.planned(e.Slot, estimate)
	if estimate.Takes > 0 {
		fields["expected_seconds"] = estimate.Takes.Seconds()
	}
	if estimate.Relayed > 0 {
		fields["relayed_bytes"] = estimate.Relayed
	}
}

// ExchangeStatus is how long the exchange of slots takes.
type ExchangeStatus struct {
	Now  *SlotTime `json:"now,omitempty"`  // the one under way
	Last *SlotTime `json:"last,omitempty"` // the newest that was decided
}

// SlotTime is how long one slot was expected to take, and took.
type SlotTime struct {
	Slot uint64 `json:"slot"`
	// of its bytes, by the links that were measured until then; 0: none was
	Expected time.Duration `json:"expected_ns"`
	Relayed  uint64        `json:"relayed_bytes,omitempty"` // that relays carry, of all members
	// from its first plan to its record, as seen here; 0: it is not decided
	Took time.Duration `json:"took_ns,omitempty"`
}

// slotTimes keeps them.
type slotTimes struct {
	mu struct {
		sync.Mutex
		status ExchangeStatus
		began  time.Time // of Now
	}
}

// planned takes in a slot's plan, or a revision of it.
func (t *slotTimes) planned(slotNumber uint64, e allreduce.Estimate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.mu.status.Now; now == nil || now.Slot != slotNumber {
		t.mu.began = time.Now()
	}
	t.mu.status.Now = &SlotTime{Slot: slotNumber, Expected: e.Takes, Relayed: e.Relayed}
}

// decided takes in that a slot has its record.
func (t *slotTimes) decided(slotNumber uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.mu.status.Now
	if now == nil || now.Slot > slotNumber {
		return
	}
	if t.mu.status.Now = nil; now.Slot == slotNumber {
		last := *now
		last.Took = time.Since(t.mu.began)
		t.mu.status.Last = &last
	}
}

func (t *slotTimes) exchange() ExchangeStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.status // what it points to is not changed
}

// LostTerms are the terms whose leaders brought no record, by the certificates that have come since
// this process started.
type LostTerms struct {
	Terms uint64   `json:"terms"`
	Slots []uint64 `json:"slots,omitempty"` // the newest in which there were any, the oldest first
}

// maxLostSlots bounds LostTerms.Slots.
const maxLostSlots = 5

// lostTerms keeps them.
type lostTerms struct {
	mu struct {
		sync.Mutex
		lost LostTerms
	}
}

// certified takes in a record of a slot, which was certified after so many terms.
func (l *lostTerms) certified(slotNumber uint64, terms uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := &l.mu.lost
	if lost.Terms += uint64(terms); terms == 0 || slices.Contains(lost.Slots, slotNumber) {
		return
	}
	// a new list, because status keeps the old one
	lost.Slots = append(slices.Clone(lost.Slots[max(0, len(lost.Slots)+1-maxLostSlots):]), slotNumber)
}

func (l *lostTerms) terms() LostTerms {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.lost
}
