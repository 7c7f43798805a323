package p2p

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	maxGreeted  = 4096
	greetedTerm = 6 * time.Hour
)

// greeted are the peers with which a hello went well: they are of a run of this peer's.
type greeted struct {
	mu struct {
		sync.Mutex
		at map[peer.ID]time.Time
	}
}

func (g *greeted) note(id peer.ID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.at == nil {
		g.mu.at = make(map[peer.ID]time.Time)
	}
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

func (g *greeted) has(id peer.ID, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.mu.at[id]
	return ok && now.Sub(at) < greetedTerm
}

func (g *greeted) forget(id peer.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.mu.at, id)
}
