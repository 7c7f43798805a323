package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

// probeTimeout bounds the probing of all members.
const probeTimeout = 2 * time.Minute

var errProbing = errors.New("another probe is under way: ask again when it has ended")

// probes obeys the order to probe the members, one at a time: it takes their links and this peer's.
func (o Orders) probes() func(http.ResponseWriter, *http.Request) error {
	var busy sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) error {
		if !busy.TryLock() {
			return errProbing
		}
		defer busy.Unlock()
		end := time.Now().Add(probeTimeout)
		c := http.NewResponseController(w) // the server's own deadlines are for short answers
		_ = c.SetReadDeadline(end.Add(writeTimeout))
		_ = c.SetWriteDeadline(end.Add(writeTimeout))
		ctx, cancel := context.WithDeadline(r.Context(), end)
		defer cancel()
		result, err := o.Probe(ctx)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(result)
		return nil
	}
}

// Probe orders the peer at addr to probe its members, and decodes what it found into result.
func Probe(ctx context.Context, addr Address, token string, result any) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout+clientTimeout)
	defer cancel()
	b, err := ask(ctx, addr, http.MethodPost, "/probe", token)
	if err == nil {
		err = json.Unmarshal(b, result)
	}
	if err != nil {
		return at(addr, err)
	}
	return nil
}
