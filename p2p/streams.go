package p2p

import (
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

type handlerFunc = func(from slot.PeerID, s wire.Stream)

type inboundKey struct {
	from  peer.ID
	proto protocol.ID
}

// streams are the handlers of streams that come in, and how many are being handled.
type streams struct {
	mu struct {
		sync.Mutex
		inbound  map[inboundKey]int // streams being handled
		handlers map[protocol.ID]handlerFunc
	}
}

func newStreams() *streams {
	s := &streams{}
	s.mu.inbound = make(map[inboundKey]int)
	s.mu.handlers = make(map[protocol.ID]handlerFunc)
	return s
}

// setHandler sets the handler of a protocol; nil: there is none any more.
func (s *streams) setHandler(id protocol.ID, f handlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.handlers[id] = f; f == nil {
		delete(s.mu.handlers, id)
	}
}

// handled are the protocols that have a handler.
func (s *streams) handled() map[protocol.ID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[protocol.ID]bool, len(s.mu.handlers))
	for id := range s.mu.handlers {
		all[id] = true
	}
	return all
}

// handler is what Handle was given for a protocol; nil if nothing.
func (s *streams) handler(id protocol.ID) handlerFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.handlers[id]
}

// enter counts one more stream that is handled, of which a peer may have so many; or says no.
func (s *streams) enter(key inboundKey, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// the handler may have gone since the stream was opened
	if s.mu.handlers[key.proto] == nil || s.mu.inbound[key] >= most {
		return false
	}
	s.mu.inbound[key]++
	return true
}

func (s *streams) leave(key inboundKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.inbound[key]--; s.mu.inbound[key] == 0 {
		delete(s.mu.inbound, key)
	}
}
