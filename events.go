package p2pdiloco

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
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

// UnmarshalJSON reads an event that MarshalJSON wrote. Numbers among its fields are json.Number,
// and keep their digits.
func (e *Event) UnmarshalJSON(line []byte) error {
	var is struct {
		Time        time.Time
		Event, Peer string
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	err := errors.Join(d.Decode(&e.Fields), json.Unmarshal(line, &is))
	e.Time, e.Name = is.Time, is.Event
	e.Peer, _ = slot.ParsePeerID(is.Peer) // a peer that did not know its ID yet has none
	if err != nil || e.Name == "" || e.Time.IsZero() {
		return fmt.Errorf("%.80q is no event", line)
	}
	return nil
}

// Decode writes the fields of an event into v, a pointer to a struct with tags of encoding/json, as
// json.Unmarshal does with a line of an events file: a field has its name and type there.
func (e Event) Decode(v any) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// eventSink passes events to the listener, one at a time.
type eventSink struct {
	log *slog.Logger
	on  func(Event) // nil: nobody listens
	mu  sync.Mutex  // held over on
}

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
	params allreduce.Params // that the all-reduce goes by
	emit   func(name string, fields map[string]any)
	mu     struct {
		sync.Mutex
		exchange ExchangeStatus
		began    time.Time // of its slot under way
	}
}

// ledgerFields are the fields of the ledger's events, each with what it is told as, where that is
// not its name. A field that is not known is left out.
var ledgerFields = map[membership.EventKind]string{
	membership.EventFounded:    "run run_id",
	membership.EventJoined:     "run run_id slot",
	membership.EventPlanned:    "slot ballot members leader schedule owners expected_seconds relayed_bytes",
	membership.EventDrafted:    "height kind slot ballot",
	membership.EventProposed:   "height kind slot ballot record prev certified_root=state electors",
	membership.EventCertified:  "height kind slot ballot record prev certified_root=state electors",
	membership.EventCommitted:  "slot ballot members contributors outcome_root=root height",
	membership.EventMembers:    "slot height members record",
	membership.EventShort:      "slot members detail",
	membership.EventSuspected:  "about reason detail slot=left_out_slot until",
	membership.EventLeft:       "about reason detail",
	membership.EventEvicted:    "about detail",
	membership.EventCloned:     "about detail",
	membership.EventRefused:    "about reason detail",
	membership.EventObjected:   "about detail",
	membership.EventResigned:   "about detail",
	membership.EventMotion:     "about height detail",
	membership.EventRemoved:    "about height record detail",
	membership.EventReadmitted: "about height record detail",
	membership.EventRotated:    "about height record detail",
	membership.EventDiverged:   "slot state_root=state certified_root=root detail",
	membership.EventForked:     "slot height members record=root detail",
	membership.EventConfirmed:  "slot height members detail",
	membership.EventSwitched:   "slot height members record=root detail",
	membership.EventPaused:     "slot detail",
	membership.EventResumed:    "slot detail",
	membership.EventFinal:      "run_id slot height state_root=root ends_as detail",
	membership.EventDone:       "run_id slot height state_root=root ends_as detail",
}

// Tell makes an event. It is called from the driver's loop and does not block.
func (l *ledgerEvents) Tell(e membership.Event) {
	values := map[string]any{
		"run": l.run, "run_id": l.id, "slot": e.Slot, "ballot": e.Ballot, "height": e.Height, "members": e.Members,
		"leader": e.Peer, "contributors": e.Contributors, "root": e.Root, "state": e.State, "prev": e.Prev,
		"kind": e.RecordKind.String(), "electors": e.Electors, "ends_as": e.Ending.String(),
		"detail": cmp.Or(e.Detail, string(e.Reason)),
	}
	if e.Peer != "" {
		values["about"] = e.Peer
	}
	if e.Reason != "" {
		values["reason"] = string(e.Reason)
	}
	if !e.Record.IsZero() {
		values["record"] = e.Record
	}
	if e.Until > 0 {
		values["left_out_slot"], values["until"] = e.Slot, e.Until
	}
	if e.Kind == membership.EventPlanned {
		values["schedule"], values["owners"] = cmp.Or(e.Detail, string(allreduce.Rotation)), owners(*e.Plan)
		l.expect(e, values)
	} else if e.Kind == membership.EventCommitted {
		l.decided(e.Slot)
	}
	fields := map[string]any{}
	for field := range strings.FieldsSeq(ledgerFields[e.Kind]) {
		name, of, other := strings.Cut(field, "=")
		if !other {
			of = name
		}
		if v, known := values[of]; known {
			fields[name] = v
		}
	}
	l.emit(string(e.Kind), fields)
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
	l.planned(e.Slot, estimate)
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

// planned takes in a slot's plan, or a revision of it.
func (l *ledgerEvents) planned(slotNumber uint64, e allreduce.Estimate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.mu.exchange.Now; now == nil || now.Slot != slotNumber {
		l.mu.began = time.Now()
	}
	l.mu.exchange.Now = &SlotTime{Slot: slotNumber, Expected: e.Takes, Relayed: e.Relayed}
}

// decided takes in that a slot has its record.
func (l *ledgerEvents) decided(slotNumber uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.mu.exchange.Now
	if now == nil || now.Slot > slotNumber {
		return
	}
	if l.mu.exchange.Now = nil; now.Slot == slotNumber {
		last := *now
		last.Took = time.Since(l.mu.began)
		l.mu.exchange.Last = &last
	}
}

// seen returns how long the exchange of slots takes. What it points to is not changed.
func (l *ledgerEvents) seen() ExchangeStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.exchange
}
