package tcpnet

import (
	"maps"
	"net"
	"sync"
	"syscall"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/liveness"
)

// Sockets are the TCP sockets below a host's connections, which the system can be asked about.
type Sockets struct {
	mu struct {
		sync.Mutex
		of    map[ends]syscall.RawConn
		sweep int // so many are looked through for closed ones
	}
}

// leastSweep sockets are remembered without a look whether they are open.
const leastSweep = 64

// ends are the multiaddrs of a connection.
type ends struct{ local, remote string }

func endsOf(c network.ConnMultiaddrs) ends {
	return ends{c.LocalMultiaddr().String(), c.RemoteMultiaddr().String()}
}

// NewSockets has none yet.
func NewSockets() *Sockets {
	s := &Sockets{}
	s.mu.of = make(map[ends]syscall.RawConn)
	s.mu.sweep = leastSweep
	return s
}

// LargeTLS is NewLargeTLS, whose connections' sockets are among these.
func (s *Sockets) LargeTLS(id protocol.ID, key crypto.PrivKey, muxers []upgrader.StreamMuxer) (*LargeTLS, error) {
	t, err := NewLargeTLS(id, key, muxers)
	if err == nil {
		t.sockets = s
	}
	return t, err
}

// add takes a connection's socket in, until remove is called. libp2p may close what is below a
// secured connection alone, where it refuses the peer: remove is not called then. So those that are
// closed are removed whenever there are twice as many as were open the last time.
func (s *Sockets) add(c net.Conn) (remove func()) {
	addrs, ok := c.(network.ConnMultiaddrs)
	raw := socketOf(c)
	if s == nil || !ok || raw == nil {
		return func() {}
	}
	at := endsOf(addrs)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.of) >= s.mu.sweep {
		maps.DeleteFunc(s.mu.of, func(_ ends, raw syscall.RawConn) bool { return closed(raw) })
		s.mu.sweep = max(leastSweep, 2*len(s.mu.of))
	}
	s.mu.of[at] = raw
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mu.of[at] == raw {
			delete(s.mu.of, at)
		}
	}
}

func closed(raw syscall.RawConn) bool { return raw.Control(func(uintptr) {}) != nil }

// Acks is what tells what was acknowledged on a connection of libp2p's; nil where nothing does.
func (s *Sockets) Acks(c network.ConnMultiaddrs) func() liveness.Acks {
	s.mu.Lock()
	defer s.mu.Unlock()
	return acksOf(s.mu.of[endsOf(c)])
}

// Acks is what tells what was acknowledged on a connection; nil where nothing does.
func Acks(c net.Conn) func() liveness.Acks { return acksOf(socketOf(c)) }

func acksOf(socket syscall.RawConn) func() liveness.Acks {
	if socket == nil || !tellsAcks {
		return nil
	}
	return func() (a liveness.Acks) {
		_ = socket.Control(func(fd uintptr) { a = acks(int(fd)) }) // a closed one waits for nothing
		return a
	}
}

// socketOf is the socket below a connection; nil if there is none.
func socketOf(c net.Conn) syscall.RawConn {
	if p, ok := c.(*peeked); ok {
		c = p.Conn
	}
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}
