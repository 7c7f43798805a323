package view

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
)

// Source asks a running peer, and puts into words what it says.
type Source struct {
	Status func(ctx context.Context) (p2pdiloco.Status, error)
	// Events returns those after so many. nil: the peer is not asked.
	Events func(ctx context.Context, after uint64) (api.Recent, error)
	// Metrics calls f with the lines of the peer's metrics file that are new. nil: it is not read.
	Metrics func(f func(line []byte)) error
	// Waits says what the peer waits for; empty: for nothing.
	Waits func(p2pdiloco.Status) string
	// Sentence says an event; empty: it is for scripts.
	Sentence func(p2pdiloco.Event) (text string, grave bool)
}

// Newest is what a watcher knows.
type Newest struct {
	View
	// Fault says why the peer does not answer, and what to do; empty: it does.
	Fault string
	// Known says whether the peer has answered yet.
	Known bool

	history history
	events  events
}

// clone is for one who keeps it.
func (n *Newest) clone() Newest {
	c := *n
	c.history.points = slices.Clone(n.history.points)
	return c
}

// Watcher asks a peer again and again.
type Watcher struct {
	source Source
	beside clock  // of run
	next   uint64 // event to ask for; of run
	mu     struct {
		sync.Mutex
		newest  Newest        // replaced as a whole, but for what its history and events append
		changed chan struct{} // closed by the next change
	}
}

// NewWatcher makes a Watcher, which knows nothing before Run.
func NewWatcher(source Source) *Watcher {
	w := &Watcher{source: source}
	w.mu.changed = make(chan struct{})
	return w
}

// Look calls f with what is known. f must not keep what it is given. The channel is closed when
// there is more.
func (w *Watcher) Look(f func(*Newest)) (changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.mu.newest)
	return w.mu.changed
}

// A peer is asked each second, and a large run, whose status is long, less often.
const (
	interval    = time.Second
	perInterval = 100 // members that a second is enough for
)

// Run asks the peer until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		members := w.ask(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(interval * time.Duration(1+members/perInterval)):
		}
	}
}

// ask asks the peer once, and returns how many members there are.
func (w *Watcher) ask(ctx context.Context) (members int) {
	s, err := w.source.Status(ctx)
	if ctx.Err() != nil {
		return 0
	}
	var news events
	var lines [][]byte
	if err == nil {
		news = w.news(ctx, namesOf(s))
		if w.source.Metrics != nil { // without the file the newest slots are those of the status
			_ = w.source.Metrics(func(line []byte) { lines = append(lines, bytes.Clone(line)) })
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &w.mu.newest
	n.events.join(news)
	if err != nil {
		n.Fault = clip(err.Error(), maxText)
	} else {
		n.View, n.Fault, n.Known = build(s, w.source.Waits(s), &w.beside), "", true
		for _, line := range lines {
			n.history.takeLine(line)
		}
		n.history.addStatus(s)
	}
	close(w.mu.changed)
	w.mu.changed = make(chan struct{})
	return len(n.Members)
}

// namesOf are the names that members say they have, by their IDs.
func namesOf(s p2pdiloco.Status) map[string]string {
	names := map[string]string{}
	for _, m := range s.Members {
		if m.Says != nil && m.Says.Name != "" {
			names[m.Peer.String()] = m.Says.Name
		}
	}
	return names
}

// news are the events since it was asked for them last. An older peer has none.
func (w *Watcher) news(ctx context.Context, names map[string]string) (news events) {
	if w.source.Events == nil {
		return news
	}
	recent, err := w.source.Events(ctx, w.next)
	if err != nil {
		return news
	}
	w.next = recent.Next
	for _, line := range recent.Events {
		var e p2pdiloco.Event
		if json.Unmarshal(line, &e) == nil {
			text, grave := w.source.Sentence(e)
			news.add(e, text, grave, names)
		}
	}
	return news
}
