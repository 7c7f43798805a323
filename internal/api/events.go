package api

import (
	"context"
	"encoding/json"
	"fmt"
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

// Events asks the peer at addr for its events after those that an earlier answer had.
func Events(ctx context.Context, addr Address, token string, after uint64) (r Recent, err error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	b, err := ask(ctx, addr, http.MethodGet, fmt.Sprintf("/events?after=%d", after), token)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, at(addr, err)
	}
	return r, nil
}
