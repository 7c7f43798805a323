package p2p

import (
	"maps"
	"slices"
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

// streams are the streams that a Network knows of, and the handlers of those that come in.
type streams struct {
	mu struct {
		sync.Mutex
		closed   bool
		open     map[*stream]struct{}
		inbound  map[inboundKey]int // streams being handled
		handlers map[protocol.ID]handlerFunc
	}
}

func newStreams() *streams {
	s := &streams{}
	s.mu.open = make(map[*stream]struct{})
	s.mu.inbound = make(map[inboundKey]int)
	s.mu.handlers = make(map[protocol.ID]handlerFunc)
	return s
}

// add takes a stream under care, or says no when close was called.
func (s *streams) add(t *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.closed {
		s.mu.open[t] = struct{}{}
	}
	return !s.mu.closed
}

func (s *streams) forget(t *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.open, t)
}

// close takes no more streams, and returns those that are open and the protocols that are handled.
func (s *streams) close() (open []*stream, handled []protocol.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	return slices.Collect(maps.Keys(s.mu.open)), slices.Collect(maps.Keys(s.mu.handlers))
}

// setHandler sets the handler of a protocol, or says no when close was called.
func (s *streams) setHandler(id protocol.ID, f handlerFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.handlers[id] = f
	return !s.mu.closed
}

func (s *streams) dropHandler(id protocol.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.handlers, id)
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
