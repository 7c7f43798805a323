package view

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/doctor"
)

//go:embed static
var static embed.FS

// Limits on what browsers take of this process.
const (
	maxConns      = 64
	writeTimeout  = 10 * time.Second // of each part of a long answer
	doctorTimeout = 3 * time.Minute
)

// PageActions are what the page's buttons do.
type PageActions struct {
	Doctor func(ctx context.Context) ([]doctor.Finding, error)
	Move   func(ctx context.Context, action, peer string) error
	// Ask may take a round: until the model is loaded that the members have agreed on.
	Ask func(ctx context.Context, prompt string) (api.Answer, error)
}

// PageServer serves the page until it is closed.
type PageServer struct {
	*api.Server
	watcher *Watcher
	actions PageActions
	key     string
	busy    chan struct{} // holds a value while doctor runs
}

// ServePage serves the page of a run on l, which Close closes.
func ServePage(l net.Listener, w *Watcher, a PageActions) *PageServer {
	s := &PageServer{watcher: w, actions: a, key: rand.Text(), busy: make(chan struct{}, 1)}
	s.Server = api.ServeOn(netutil.LimitListener(l, maxConns), s.handler())
	return s
}

// URL is the page's address, with its key.
func (s *PageServer) URL() string { return "http://" + s.Addr().String() + "/#" + s.key }

func (s *PageServer) handler() http.Handler {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // it is in the program
	}
	mux, never := http.NewServeMux(), func() bool { return false }
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /stream", s.guard(s.isOpen, s.stream))
	mux.HandleFunc("POST /doctor", s.guard(never, s.doctor))
	mux.HandleFunc("POST /move", s.guard(never, s.move))
	mux.HandleFunc("POST /ask", s.guard(never, s.ask))
	return api.UnderLoopbackName(withHeaders(mux))
}

var errBusy = errors.New("the doctor is at work already: wait until it has answered")

// doctor examines the peer, one at a time: it uses the links of all members.
func (s *PageServer) doctor(w http.ResponseWriter, r *http.Request) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	default:
		refuse(w, errBusy)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), doctorTimeout)
	defer cancel()
	// the other deadlines are for short answers
	deadlines, end := http.NewResponseController(w), time.Now().Add(doctorTimeout+writeTimeout)
	_ = deadlines.SetReadDeadline(end)
	_ = deadlines.SetWriteDeadline(end)
	found, err := s.actions.Doctor(ctx)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(found)
}

func (s *PageServer) move(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	action := q.Get("action")
	if action != "remove" && action != "readmit" {
		http.Error(w, "the action is remove or readmit", http.StatusBadRequest)
		return
	}
	if err := s.actions.Move(r.Context(), action, q.Get("peer")); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func refuse(w http.ResponseWriter, err error) { http.Error(w, err.Error(), http.StatusConflict) }

// answer is what a browser gets: an answer, or why there is none.
type answer struct {
	api.Answer
	Error string `json:"error,omitempty"`
}

// ask has the model answer. A browser would give up in a round that takes long, so it is sent a
// space now and then, which JSON may begin with.
func (s *PageServer) ask(w http.ResponseWriter, r *http.Request) {
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(time.Time{}) // the request's context ends with its connection
	answered := make(chan answer, 1)
	go func() {
		a, err := s.actions.Ask(r.Context(), r.URL.Query().Get("prompt"))
		if err != nil {
			answered <- answer{Error: err.Error()}
			return
		}
		answered <- answer{Answer: a}
	}()
	w.Header().Set("Content-Type", "application/json")
	beat := time.Tick(keepAlive)
	for {
		select {
		case a := <-answered:
			_ = deadlines.SetWriteDeadline(time.Now().Add(writeTimeout))
			_ = json.NewEncoder(w).Encode(a)
			return
		case <-beat:
			_ = deadlines.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := w.Write([]byte(" ")); err != nil || deadlines.Flush() != nil {
				return
			}
		}
	}
}
