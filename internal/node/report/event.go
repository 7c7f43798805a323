// Package report has what a node reports of itself: events and status. It only observes: it decides
// nothing, and no part of a node waits for it.
//
//	Events   hands each event to Config.OnEvent, one at a time
//	Ledger   makes events of what happens in the ledger (membership)
//	Status   what a node knows of its run at one moment, put together from views of its parts
package report

import (
	"encoding/json"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Event is one thing that happened on a node: one line of an events file. Names and fields are
// stable: scripts rely on them.
//
//	peer.started    pid, peer_id, addrs, api, metrics (where they have an address of their own)
//	admission.made  file: with the secret of a private run
//	run.searching   run, detail
//	run.founded     run, run_id
//	run.joined      slot
//	slot.planned    slot, ballot, members, leader, schedule, owners (the number of peers that reduce a
//	                part); and, where they are known, expected_seconds
//	                (of its bytes, by measured links), relayed_bytes (of them, through relays)
//	record.drafted  height, kind, slot, ballot: of the leader, which asks the members whether they hold the outcome
//	record.proposed height, kind, slot, ballot, record, prev, certified_root: of the leader, which asks for votes
//	record.certified the same, of every peer that takes the record into its chain;
//	                certified_root is the state before it
//	slot.committed  slot, ballot, members, contributors, outcome_root, height
//	slot.applied    slot, state_root, height
//	slot.stats      slot, contributors, weight, staleness (mean), max_staleness, norm; and, where they are
//	                known, own_norm, cosine, pair_cosine
//	state.synced    slot, bytes, resumed, sources, state_root, height
//	donor.dropped   about, reason, lied
//	state.diverged  slot, state_root (held here), certified_root, detail
//	members.changed slot, height, members
//	peer.suspected  about, detail
//	peer.left       about, detail
//	peer.evicted    about, detail
//	peer.cloned     about, detail
//	clock.skewed    detail; and, where they are wrong, off_seconds (this machine's clock, ahead of the
//	                others'), peers (whose clocks are)
//	access.ordered  about (the author of the motion), height, detail
//	admission.refused about (a member that does not let this peer back into a private run), detail
//	peer.removed    about, height, record, detail
//	peer.readmitted about, height, record, detail
//	secret.rotated  height, record, detail
//	peer.objected   about, detail
//	peer.waits      about, detail
//	peer.refused    about, detail
//	run.paused      slot, detail
//	run.resumed     slot, detail
//	run.forked      slot, height, members, record, detail
//	run.confirmed   slot, height, members, detail
//	run.switched    slot, height, members, record, detail
//	run.summary     slot, height, members, record, detail: the chain here begins with a summary
//	run.done        slot, detail
//	peer.stands_out about, finding (opposite | zeros | too_large | old_news | unpublished), detail, slot: what a
//	                member contributes, or does not publish as an owner, begins to be unlike that of the others
//	peer.fits_in    the same, where that ends
//	trainer.alarm   about (this peer), finding, detail, slot: what this peer contributes is probably wrong
//	trainer.alarm_over the same, where that ends
//	trainer.stats   round, loss (where the trainer measures it), train_loss, tokens, seconds, grad_norm, stall
//
// Others may come; readers skip the names they do not know.
type Event struct {
	Time   time.Time
	Name   string
	Peer   slot.PeerID // the peer that the event is about
	Fields map[string]any
}

// MarshalJSON makes one flat object of the event.
func (e Event) MarshalJSON() ([]byte, error) {
	m := make(map[string]any, len(e.Fields)+3)
	maps.Copy(m, e.Fields)
	m["time"], m["event"], m["peer"] = e.Time.UTC().Format(time.RFC3339Nano), e.Name, e.Peer
	return json.Marshal(m)
}

// Events passes events to the listener, one at a time.
type Events struct {
	log *slog.Logger
	on  func(Event) // nil: nobody listens
	mu  sync.Mutex  // held over on
}

// NewEvents makes an Events; on may be nil.
func NewEvents(log *slog.Logger, on func(Event)) *Events { return &Events{log: log, on: on} }

// Emit passes on an event about a peer.
func (e *Events) Emit(peer slot.PeerID, name string, fields map[string]any) {
	e.log.Debug(name, "fields", fields)
	if e.on == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.on(Event{Time: time.Now(), Name: name, Peer: peer, Fields: fields})
}
