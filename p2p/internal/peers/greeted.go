package peers

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const maxGreeted = 4096

// GreetedTerm is how long a hello counts.
const GreetedTerm = 6 * time.Hour

// Greeted are the peers with which a hello went well: they are in a run of this peer.
type Greeted struct {
	mu struct {
		sync.Mutex
		at map[peer.ID]time.Time
	}
}

// NewGreeted begins with nobody.
func NewGreeted() *Greeted {
	g := &Greeted{}
	g.mu.at = make(map[peer.ID]time.Time)
	return g
}

// Note records a hello. Beyond 4096 peers the oldest hello is forgotten.
func (g *Greeted) Note(id peer.ID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.at[id] = now
	if len(g.mu.at) <= maxGreeted {
		return
	}
	oldest := id
	for other, at := range g.mu.at {
		if at.Before(g.mu.at[oldest]) {
			oldest = other
		}
	}
	delete(g.mu.at, oldest)
}

// Has says whether a hello with a peer went well within GreetedTerm.
func (g *Greeted) Has(id peer.ID, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.mu.at[id]
	return ok && now.Sub(at) < GreetedTerm
}

// Forget drops a peer's hello.
func (g *Greeted) Forget(id peer.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.mu.at, id)
}
