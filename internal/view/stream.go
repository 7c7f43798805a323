package view

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
)

// update is what a browser does not know yet. What is nil has not changed.
type update struct {
	Run       json.RawMessage   `json:"run,omitempty"`
	Now       json.RawMessage   `json:"now,omitempty"`
	Bytes     json.RawMessage   `json:"bytes,omitempty"`
	Agreement json.RawMessage   `json:"agreement,omitempty"`
	Members   []json.RawMessage `json:"members,omitempty"` // those that have changed
	// IDs of those that are members no more
	Gone   []string `json:"gone,omitempty"`
	Points []Point  `json:"points,omitempty"` // those that have changed
	Events []Event  `json:"events,omitempty"` // new ones
	// why the peer does not answer; empty: it does
	Fault  *string `json:"fault,omitempty"`
	HasKey *bool   `json:"key,omitempty"` // whether the browser's key is the right one
}

// told is what a browser knows.
type told struct {
	parts          [4][]byte // run, now, bytes, agreement
	members        map[string][]byte
	points, events uint64
	fault          string
	begun          bool
}

// keepAlive is how often a browser hears something: else a connection that ends is not noticed.
const keepAlive = 15 * time.Second

// stream tells a browser what is new until it ends.
func (s *PageServer) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	deadlines, known := http.NewResponseController(w), told{members: map[string][]byte{}}
	_ = deadlines.SetReadDeadline(time.Time{}) // that of the request would end the stream
	for {
		var u update
		changed := s.watcher.Look(func(n *Newest) { u = known.update(n) })
		if !known.begun {
			u.HasKey, known.begun = new(s.hasKey(r)), true
		}
		text, err := json.Marshal(u)
		if err != nil {
			return // a figure that is no number: the view has none
		}
		_ = deadlines.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := w.Write([]byte("data: " + string(text) + "\n\n")); err != nil || deadlines.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-time.After(keepAlive):
		}
	}
}

// update returns what is new, and counts it as told.
func (t *told) update(n *Newest) (u update) {
	if n.Known {
		for i, part := range []struct {
			value any
			to    *json.RawMessage
		}{{n.Run, &u.Run}, {n.Now, &u.Now}, {n.Bytes, &u.Bytes}, {n.Agreement, &u.Agreement}} {
			if text, err := json.Marshal(part.value); err == nil && !bytes.Equal(text, t.parts[i]) {
				t.parts[i], *part.to = text, text
			}
		}
		t.changes(n.Members, &u)
	}
	u.Points, t.points = n.history.since(t.points), n.history.version
	u.Events, t.events = n.events.since(t.events), n.events.number
	if !t.begun || t.fault != n.Fault {
		t.fault = n.Fault
		u.Fault = new(n.Fault)
	}
	return u
}

// changes adds to an update which members are new, others than before, or gone.
func (t *told) changes(members []Member, u *update) {
	are := make(map[string]bool, len(members))
	for _, m := range members {
		are[m.ID] = true
		if text, err := json.Marshal(m); err == nil && !bytes.Equal(text, t.members[m.ID]) {
			t.members[m.ID] = text
			u.Members = append(u.Members, text)
		}
	}
	for id := range t.members {
		if !are[id] {
			delete(t.members, id)
			u.Gone = append(u.Gone, id)
		}
	}
}
