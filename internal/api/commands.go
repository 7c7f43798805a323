package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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

// handle adds the commands that the peer has functions for.
func (c Commands) handle(addr Address, keys Keys, mux *http.ServeMux) {
	if c.Recover != nil {
		mux.HandleFunc("POST /recover", keys.guard(addr, carryOut(func(w http.ResponseWriter, _ *http.Request) error {
			err := c.Recover()
			if err == nil {
				w.WriteHeader(http.StatusAccepted)
			}
			return err
		})))
	}
	if c.Change != nil {
		mux.HandleFunc("POST /change", keys.guard(addr, carryOut(func(w http.ResponseWriter, r *http.Request) error {
			err := c.Change(Motion{r.URL.Query().Get("action"), r.URL.Query().Get("peer")})
			if err == nil {
				w.WriteHeader(http.StatusAccepted)
			}
			return err
		})))
	}
	if c.Invite != nil {
		mux.HandleFunc("POST /invite", keys.guard(addr, carryOut(func(w http.ResponseWriter, r *http.Request) error {
			asked, err := invitationOf(r.URL.Query())
			if err != nil {
				return err
			}
			text, err := c.Invite(asked)
			if err != nil {
				return err
			}
			w.Header().Set("Cache-Control", "no-store")
			_, _ = fmt.Fprintln(w, text)
			return nil
		})))
	}
	if c.Probe != nil {
		mux.HandleFunc("POST /probe", keys.guard(addr, carryOut(c.probes())))
	}
	if c.Ask != nil {
		mux.HandleFunc("POST /ask", keys.guard(addr, carryOut(c.questions())))
	}
}

// carryOut answers a command, whose error is a refusal.
func carryOut(do func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	}
}

func (i Invitation) query() string {
	return url.Values{"ttl": {i.TTL.String()}, "uses": {strconv.Itoa(i.Uses)}}.Encode()
}

func invitationOf(q url.Values) (i Invitation, err error) {
	var errs [2]error
	i.TTL, errs[0] = time.ParseDuration(q.Get("ttl"))
	i.Uses, errs[1] = strconv.Atoi(q.Get("uses"))
	return i, errors.Join(errs[:]...)
}

// Invite asks the peer at addr for a ticket.
func Invite(ctx context.Context, addr Address, token string, i Invitation) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	text, err := ask(ctx, addr, http.MethodPost, "/invite?"+i.query(), token)
	if err != nil {
		return "", at(addr, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Move gives a motion to the peer at addr.
func Move(ctx context.Context, addr Address, token, action, peer string) error {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	q := url.Values{"action": {action}, "peer": {peer}}.Encode()
	if _, err := ask(ctx, addr, http.MethodPost, "/change?"+q, token); err != nil {
		return at(addr, err)
	}
	return nil
}

// Recover makes the peer at addr go on without a quorum.
func Recover(ctx context.Context, addr Address, token string) error {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	if _, err := ask(ctx, addr, http.MethodPost, "/recover", token); err != nil {
		return at(addr, err)
	}
	return nil
}
