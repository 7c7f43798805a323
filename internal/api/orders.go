package api

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Orders are what a client may have the peer do. On a loopback address every user and, through a browser, every web page of the
// machine can connect, so an order must bear the token, which is in a file that the peer's user alone can read. A Unix socket is
// guarded by its own permissions. Web pages cannot send the token's header unasked, and are not answered when they ask.
type Orders struct {
	Token   string
	Recover func() error                     // nil: that order is not taken
	Change  func(Change) error               // nil: that order is not taken
	Invite  func(Invitation) (string, error) // nil: that order is not taken
	// Probe is of the members; what it returns is sent as JSON. nil: that order is not taken
	Probe func(ctx context.Context) (any, error)
}

// Change is an order about who may be in the run.
type Change struct {
	Action string // remove | readmit | rotate
	Peer   string // whom it is about; empty for rotate
}

// Invitation is what a ticket that is ordered should be good for.
type Invitation struct {
	TTL  time.Duration // 0: the default
	Uses int           // newcomers; 0: the default
}

// NewToken is a secret of 128 bits and more.
func NewToken() string { return rand.Text() }

const bearer = "Bearer "

// handle adds the orders that are taken.
func (o Orders) handle(addr Address, mux *http.ServeMux) {
	if o.Recover != nil {
		mux.HandleFunc("POST /recover", o.bearing(addr, func(w http.ResponseWriter, _ *http.Request) error {
			err := o.Recover()
			if err == nil {
				w.WriteHeader(http.StatusAccepted)
			}
			return err
		}))
	}
	if o.Change != nil {
		mux.HandleFunc("POST /change", o.bearing(addr, func(w http.ResponseWriter, r *http.Request) error {
			err := o.Change(Change{r.URL.Query().Get("action"), r.URL.Query().Get("peer")})
			if err == nil {
				w.WriteHeader(http.StatusAccepted)
			}
			return err
		}))
	}
	if o.Invite != nil {
		mux.HandleFunc("POST /invite", o.bearing(addr, func(w http.ResponseWriter, r *http.Request) error {
			asked, err := invitationOf(r.URL.Query())
			if err != nil {
				return err
			}
			text, err := o.Invite(asked)
			if err != nil {
				return err
			}
			w.Header().Set("Cache-Control", "no-store")
			_, _ = fmt.Fprintln(w, text)
			return nil
		}))
	}
	if o.Probe != nil {
		mux.HandleFunc("POST /probe", o.bearing(addr, o.probes()))
	}
}

// bearing obeys an order that bears the token.
func (o Orders) bearing(addr Address, obey func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given := []byte(r.Header.Get("Authorization"))
		if addr.network != "unix" && (o.Token == "" || subtle.ConstantTimeCompare(given, []byte(bearer+o.Token)) != 1) {
			http.Error(w, "an order needs the token in the peer's data directory", http.StatusUnauthorized)
			return
		}
		if err := obey(w, r); err != nil {
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

// Invite orders a ticket from the peer at addr.
func Invite(ctx context.Context, addr Address, token string, i Invitation) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	text, err := ask(ctx, addr, http.MethodPost, "/invite?"+i.query(), token)
	if err != nil {
		return "", at(addr, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Order orders a change from the peer at addr.
func Order(ctx context.Context, addr Address, token, action, peer string) error {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	q := url.Values{"action": {action}, "peer": {peer}}.Encode()
	if _, err := ask(ctx, addr, http.MethodPost, "/change?"+q, token); err != nil {
		return at(addr, err)
	}
	return nil
}

// Recover orders the peer at addr to go on without a quorum.
func Recover(ctx context.Context, addr Address, token string) error {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	if _, err := ask(ctx, addr, http.MethodPost, "/recover", token); err != nil {
		return at(addr, err)
	}
	return nil
}
