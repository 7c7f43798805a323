package edge

import (
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// maxPeerSet bounds a peerSet: above the number of members that there can be, so that those of now
// are always in it.
const maxPeerSet = 8192

// peerSet is a bounded set of peers. When it is full it begins anew.
type peerSet struct {
	mu struct {
		sync.Mutex
		peers map[slot.PeerID]struct{}
	}
}

func (s *peerSet) add(peers []slot.PeerID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.peers == nil || len(s.mu.peers)+len(peers) > maxPeerSet {
		s.mu.peers = make(map[slot.PeerID]struct{})
	}
	for _, p := range peers {
		s.mu.peers[p] = struct{}{}
	}
}

func (s *peerSet) has(p slot.PeerID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.mu.peers[p]
	return ok
}
