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

// probes carries out the command to probe the members. Only one runs at a time, because it uses the
// links of all.
func (c Commands) probes() func(http.ResponseWriter, *http.Request) error {
	var busy sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) error {
		if !busy.TryLock() {
			return errProbing
		}
		defer busy.Unlock()
		end := time.Now().Add(probeTimeout)
		// the server's other deadlines are for short answers
		deadlines := http.NewResponseController(w)
		_ = deadlines.SetReadDeadline(end.Add(writeTimeout))
		_ = deadlines.SetWriteDeadline(end.Add(writeTimeout))
		ctx, cancel := context.WithDeadline(r.Context(), end)
		defer cancel()
		result, err := c.Probe(ctx)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(result)
		return nil
	}
}

// Probe makes the peer at addr probe its members, and decodes the result.
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
