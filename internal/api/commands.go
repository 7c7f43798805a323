package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Commands are what a client may ask the peer to do.
type Commands struct {
	Recover func() error                     // nil: refused
	Change  func(Motion) error               // nil: refused
	Invite  func(Invitation) (string, error) // nil: refused
	// Probe is of the members; what it returns is sent as JSON. nil: refused
	Probe func(ctx context.Context) (any, error)
	Ask   func(ctx context.Context, prompt string) (Answer, error) // nil: refused
}

// Motion is an operator's motion to change the list of peers that may take part in the run.
type Motion struct {
	Action string // remove | readmit | rotate
	Peer   string // the peer to remove or readmit; empty for rotate
}

// Invitation says what a new ticket should be good for.
type Invitation struct {
	TTL  time.Duration // 0: the default
	Uses int           // newcomers; 0: the default
}

// Answer is what a model made of a prompt.
type Answer struct {
	Text string `json:"text"`
	Slot uint64 `json:"slot"` // of the anchor that the model is
}

// handle adds the commands that the peer has functions for.
func (c Commands) handle(addr Address, keys Keys, mux *http.ServeMux) {
	var probing sync.Mutex
	for _, command := range []struct {
		name  string
		known bool
		do    func(ctx context.Context, q url.Values) (any, error)
	}{
		{"recover", c.Recover != nil, func(context.Context, url.Values) (any, error) { return nil, c.Recover() }},
		{"change", c.Change != nil, func(_ context.Context, q url.Values) (any, error) {
			return nil, c.Change(Motion{q.Get("action"), q.Get("peer")})
		}},
		{"invite", c.Invite != nil, func(_ context.Context, q url.Values) (any, error) {
			asked, err := invitationOf(q)
			if err != nil {
				return nil, err
			}
			return c.Invite(asked)
		}},
		{"probe", c.Probe != nil, func(ctx context.Context, _ url.Values) (any, error) {
			if !probing.TryLock() { // it uses the links of all
				return nil, errors.New("another probe is under way: ask again when it has ended")
			}
			defer probing.Unlock()
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			return c.Probe(ctx)
		}},
		{"ask", c.Ask != nil, func(ctx context.Context, q url.Values) (any, error) {
			return c.Ask(ctx, q.Get("prompt"))
		}},
	} {
		if command.known {
			mux.HandleFunc("POST /"+command.name, keys.guard(addr, carryOut(command.do)))
		}
	}
}

// probeTimeout bounds the probing of all members.
const probeTimeout = 2 * time.Minute

// carryOut answers a command, which may take as long as the client waits. Its error is a refusal.
func carryOut(do func(context.Context, url.Values) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		deadlines := http.NewResponseController(w)
		_ = deadlines.SetReadDeadline(time.Time{}) // the request's context ends with its connection
		_ = deadlines.SetWriteDeadline(time.Time{})
		answer, err := do(r.Context(), r.URL.Query())
		_ = deadlines.SetWriteDeadline(time.Now().Add(writeTimeout))
		switch text, isText := answer.(string); {
		case err != nil:
			http.Error(w, err.Error(), http.StatusConflict)
		case answer == nil:
			w.WriteHeader(http.StatusAccepted)
		case isText:
			w.Header().Set("Cache-Control", "no-store")
			_, _ = fmt.Fprintln(w, text)
		default:
			writeJSON(w, answer)
		}
	}
}

func invitationOf(q url.Values) (i Invitation, err error) {
	var errs [2]error
	i.TTL, errs[0] = time.ParseDuration(q.Get("ttl"))
	i.Uses, errs[1] = strconv.Atoi(q.Get("uses"))
	return i, errors.Join(errs[:]...)
}
