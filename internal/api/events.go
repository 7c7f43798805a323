package api

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Recent are the newest events of a peer, as its events file has them. Those of every slot are left
// out: a status tells them better.
type Recent struct {
	Next   uint64            `json:"next"` // what to ask for the next time
	Events []json.RawMessage `json:"events"`
}

// handleEvents serves the events after a number that the request names; all without one.
func (c Content) handleEvents(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
	if err != nil {
		after = 0
	}
	writeJSON(w, c.Events(after))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v)
}
