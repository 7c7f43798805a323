package api

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
)

// Orders are what a client may have the peer do. On a loopback address every user and, through a browser, every web page of the
// machine can connect, so an order must bear the token, which is in a file that the peer's user alone can read. A Unix socket is
// guarded by its own permissions. Web pages cannot send the token's header unasked, and are not answered when they ask.
type Orders struct {
	Token   string
	Recover func() error // nil: no orders are taken
}

// NewToken is a secret of 128 bits and more.
func NewToken() string { return rand.Text() }

const bearer = "Bearer "

func (o Orders) serve(addr Address, w http.ResponseWriter, r *http.Request) {
	given := []byte(r.Header.Get("Authorization"))
	if addr.network != "unix" && (o.Token == "" || subtle.ConstantTimeCompare(given, []byte(bearer+o.Token)) != 1) {
		http.Error(w, "an order needs the token in the peer's data directory", http.StatusUnauthorized)
		return
	}
	if err := o.Recover(); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// Recover orders the peer at addr to go on without a quorum.
func Recover(ctx context.Context, addr Address, token string) error {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	if _, err := ask(ctx, addr, http.MethodPost, "/recover", token); err != nil {
		return fmt.Errorf("API at %s: %w", addr, err)
	}
	return nil
}
