package peers

import (
	"slices"
	"sync"

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
	ids := make([]peer.ID, 0, len(m.mu.ids))
	for id := range m.mu.ids {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
