package api

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
)

// Keys are the tokens that a request to a HOST:PORT must bear. Every user of the machine can
// connect to a loopback address and, through a browser, so can every web page. A web page cannot
// send the header with a token without asking first, and the server does not answer such a
// question. A Unix socket needs no token, because its permissions let in the peer's user alone.
type Keys struct {
	Token   string // of the status, the commands and the metrics; empty: they are refused
	Metrics string // of the metrics alone; empty: there is none
	// OpenMetrics says whether everybody may read the metrics; nil: nobody may.
	OpenMetrics func() bool
}

// NewToken is a secret of 128 bits and more.
func NewToken() string { return rand.Text() }

const bearer = "Bearer "

// bears says whether a request has a token.
func bears(r *http.Request, token string) bool {
	given := []byte(r.Header.Get("Authorization"))
	return token != "" && subtle.ConstantTimeCompare(given, []byte(bearer+token)) == 1
}

// guard serves requests that have the token of the peer.
func (k Keys) guard(addr Address, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if addr.network != "unix" && !bears(r, k.Token) {
			http.Error(w, "this needs the token in the peer's data directory, which only its user can read",
				http.StatusUnauthorized)
			return
		}
		h(w, r)
	}
}

// guardMetrics serves requests that may read the metrics.
func (k Keys) guardMetrics(addr Address, h http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		open := k.OpenMetrics != nil && k.OpenMetrics()
		if addr.network != "unix" && !open && !bears(r, k.Token) && !bears(r, k.Metrics) {
			http.Error(w, "the metrics of this run need the token in metrics.token in the peer's data directory",
				http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}
}
