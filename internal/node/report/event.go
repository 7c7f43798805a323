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

// Event is one thing that happened on a node: one line of an events file. docs/reference/events.md
// lists the names and their fields, and a test holds it against the code. They are stable: scripts
// rely on them. Others may come; readers skip the names they do not know.
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
