package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Limits on the resources of one client.
const (
	headerTimeout = 5 * time.Second
	writeTimeout  = 10 * time.Second
	idleTimeout   = 30 * time.Second
	maxHeader     = 8 << 10 // bytes
	closeTimeout  = time.Second
)

// Server serves a status until it is closed.
type Server struct {
	addr   Address
	http   *http.Server
	served chan struct{} // closed when the server's goroutine has ended
}

// Content is what a peer serves to requests that have the right key. All functions are called from
// many goroutines.
type Content struct {
	Status   func() (any, bool) // sent as JSON; false: the peer is starting
	Starting func() string      // what a starting peer waits for; nil or empty: not known
	Commands Commands
	// Node takes commands in the place of Commands, once it is there; nil: none
	Node    func() (http.Handler, error)
	Metrics http.Handler              // nil: none
	Events  func(after uint64) Recent // those that came after so many; nil: none
}

// Serve listens on addr. It answers GET /status and GET /metrics, and takes commands.
func Serve(addr Address, keys Keys, c Content) (*Server, error) {
	l, err := listen(addr)
	if err != nil {
		return nil, fmt.Errorf("status API: %w: choose another address with --api, like 127.0.0.1:0 for any free port",
			err)
	}
	return ServeOn(l, handler(addr, keys, c)), nil
}

// ServeOn serves on a listener, which Close closes.
func ServeOn(l net.Listener, h http.Handler) *Server {
	addr := Address{l.Addr().Network(), l.Addr().String()}
	s := &Server{
		addr:   addr,
		served: make(chan struct{}),
		http: &http.Server{
			Handler:           h,
			ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
			WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		},
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(l) // ends with Close
	}()
	return s
}

func listen(addr Address) (net.Listener, error) {
	if addr.network == "unix" {
		removeStale(addr.place)
	}
	l, err := net.Listen(addr.network, addr.place)
	if err != nil {
		return nil, err
	}
	if addr.network == "unix" {
		if err := os.Chmod(addr.place, 0o600); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

// removeStale removes a socket that a killed process left behind. A socket that answers is in use
// and stays.
func removeStale(path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close()
		return
	}
	_ = os.Remove(path)
}

// starting says why there is no status yet.
func (c *Content) starting() string {
	if c.Starting != nil {
		if what := c.Starting(); what != "" {
			return "the peer waits for its trainer (" + what + "): it looks for the run once all ranks have attached"
		}
	}
	return "the peer is starting: ask again in a moment"
}

// Handler serves the content to whoever reaches it.
func Handler(c Content) http.Handler { return handler(Address{network: "unix"}, Keys{}, c) }

func handler(addr Address, keys Keys, c Content) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", keys.guard(addr, func(w http.ResponseWriter, _ *http.Request) {
		s, ok := c.Status()
		if !ok {
			http.Error(w, c.starting(), http.StatusServiceUnavailable)
			return
		}
		writeJSON(w, s)
	}))
	if c.Events != nil {
		mux.HandleFunc("GET /events", keys.guard(addr, c.handleEvents))
	}
	c.Commands.handle(addr, keys, mux)
	if c.Node != nil {
		mux.HandleFunc("POST /", keys.guard(addr, func(w http.ResponseWriter, r *http.Request) {
			if node, err := c.Node(); err == nil {
				node.ServeHTTP(w, r)
			} else {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		}))
	}
	if c.Metrics != nil {
		mux.Handle("GET /metrics", keys.guardMetrics(addr, c.Metrics))
	}
	return underOwnName(addr, mux)
}

// underOwnName refuses requests to a loopback address with another host name.
func underOwnName(addr Address, h http.Handler) http.Handler {
	if !addr.local() {
		return h
	}
	return UnderLoopbackName(h)
}

// UnderLoopbackName refuses requests that name another host than a loopback address.
func UnderLoopbackName(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownHost(r.Host) {
			http.Error(w, "ask under a loopback address or localhost", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// ownHost says whether a Host header names a loopback address. In a DNS rebinding attack it has the
// attacker's name.
func ownHost(header string) bool {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	}
	return isLoopback(host)
}

// Addr is the address that the server listens on, with the port that was chosen.
func (s *Server) Addr() Address { return s.addr }

// Close ends the server. It waits a second for answers that are under way.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	<-s.served
	return err
}

// Recent are the newest events of a peer, as its events file has them. Those of every slot are left
// out: a status tells them better.
type Recent struct {
	Next   uint64            `json:"next"` // what to ask for the next time
	Events []json.RawMessage `json:"events"`
}

// handleEvents serves the events after a number that the request names; all without one.
func (c Content) handleEvents(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
	writeJSON(w, c.Events(after))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v)
}
