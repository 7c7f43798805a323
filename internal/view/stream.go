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
	parts          map[string]json.RawMessage // run, now, bytes, agreement, members by their IDs
	members        map[string]bool            // by their IDs
	points, events uint64
	fault          string
	begun          bool
}

// keepAlive is how often a browser hears something: else a connection that ends is not noticed.
const keepAlive = 15 * time.Second

// stream tells a browser what is new until it ends.
func (s *PageServer) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	deadlines, known := http.NewResponseController(w), told{parts: map[string]json.RawMessage{}}
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
		u.Run, u.Now, u.Bytes = t.news("run", n.Run), t.news("now", n.Now), t.news("bytes", n.Bytes)
		u.Agreement = t.news("agreement", n.Agreement)
		t.changes(n.Members, &u)
	}
	u.Points, t.points = n.history.listChanged(t.points), n.history.version
	u.Events, t.events = n.events.listAfter(t.events), n.events.number
	if !t.begun || t.fault != n.Fault {
		t.fault = n.Fault
		u.Fault = new(n.Fault)
	}
	return u
}

// news is a part of a view where it is another than was told; nil: it is the same.
func (t *told) news(part string, value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil || bytes.Equal(text, t.parts[part]) {
		return nil
	}
	t.parts[part] = text
	return text
}

// changes adds to an update which members are new, others than before, or gone.
func (t *told) changes(members []Member, u *update) {
	are := map[string]bool{}
	for _, m := range members {
		are[m.ID] = true
		if text := t.news(m.ID, m); text != nil {
			u.Members = append(u.Members, text)
		}
	}
	for id := range t.members {
		if !are[id] {
			delete(t.parts, id)
			u.Gone = append(u.Gone, id)
		}
	}
	t.members = are
}
