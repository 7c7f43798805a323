package peers

import (
	"maps"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/peer"
)

// MemberTag protects the connections of members from being trimmed.
const MemberTag = "p2pdiloco/member"

// Members are the peers that take part in the run, this one not among them.
type Members struct {
	conns connmgr.ConnManager
	mu    struct {
		sync.Mutex
		ids map[peer.ID]struct{}
	}
}

// NewMembers begins without members. conns keeps their connections.
func NewMembers(conns connmgr.ConnManager) *Members { return &Members{conns: conns} }

// Set replaces the members. It returns those that were not among them before.
func (m *Members) Set(ids map[peer.ID]struct{}) (added []peer.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.mu.ids {
		if _, ok := ids[id]; !ok {
			m.conns.Unprotect(id, MemberTag)
		}
	}
	for id := range ids {
		m.conns.Protect(id, MemberTag)
		if _, old := m.mu.ids[id]; !old {
			added = append(added, id)
		}
	}
	m.mu.ids = ids
	return added
}

// Has says whether a peer is a member.
func (m *Members) Has(id peer.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.mu.ids[id]
	return ok
}

// List returns the members, sorted.
func (m *Members) List() []peer.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.mu.ids))
}

const maxGreeted = 4096

// GreetedTerm is how long a hello counts.
const GreetedTerm = 6 * time.Hour

// Greeted are the peers with which a hello went well: they are in a run of this peer.
type Greeted struct {
	at *lru.Cache[peer.ID, time.Time]
}

// NewGreeted begins with nobody.
func NewGreeted() *Greeted {
	at, _ := lru.New[peer.ID, time.Time](maxGreeted) // fails for a size of 0
	return &Greeted{at}
}

// Note records a hello. Beyond 4096 peers the oldest hello is forgotten.
func (g *Greeted) Note(id peer.ID, now time.Time) { g.at.Add(id, now) }

// Has says whether a hello with a peer went well within GreetedTerm.
func (g *Greeted) Has(id peer.ID, now time.Time) bool {
	at, ok := g.at.Peek(id)
	return ok && now.Sub(at) < GreetedTerm
}

// Forget drops a peer's hello.
func (g *Greeted) Forget(id peer.ID) { g.at.Remove(id) }
