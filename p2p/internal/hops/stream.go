package hops

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// stream is one end of a forwarded stream: what is written to it is encrypted for the other end.
type stream struct {
	raw    wire.Stream // to the forwarder
	via    peer.ID     // the forwarder
	tls    *tls.Conn
	broken func(error) // is told why reading or writing failed, if the way may be at fault
}

var _ wire.Stream = (*stream)(nil)

// begin names the protocol of a stream to the target.
func (s *stream) begin(ctx context.Context, proto protocol.ID) error {
	stop := context.AfterFunc(ctx, func() { _ = s.raw.Reset() })
	defer stop()
	return wire.WriteMessage(s.tls, []byte(proto))
}

// begun waits for that on the other end.
func (s *stream) begun() (protocol.ID, error) {
	if err := s.SetReadDeadline(time.Now().Add(spareTerm + headTimeout)); err != nil {
		return "", err
	}
	proto, err := wire.ReadMessage(s.tls, maxProtocol)
	if err != nil {
		return "", err
	}
	return protocol.ID(proto), s.SetReadDeadline(time.Time{})
}

// Read counts a time that has run out against the way, too: a forwarder may carry a handshake and
// nothing after it. Where the other end was slow instead, that costs another forwarder's turn.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.tls.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.broken(err)
	}
	return n, err
}

func (s *stream) Write(b []byte) (int, error) {
	n, err := s.tls.Write(b)
	if err != nil {
		s.broken(err)
	}
	return n, err
}

// CloseWrite tells the other end, under the keys of both, that no more follows: a forwarder that
// ends the stream early is noticed.
func (s *stream) CloseWrite() error {
	return errors.Join(s.tls.CloseWrite(), s.raw.CloseWrite())
}

// endTimeout is for the last bytes of a stream that is closed.
const endTimeout = 10 * time.Second

func (s *stream) Close() error {
	_ = s.raw.SetWriteDeadline(time.Now().Add(endTimeout)) // where this fails, so does what follows
	return s.tls.Close()
}

func (s *stream) Reset() error { return s.raw.Reset() }

func (s *stream) SetDeadline(t time.Time) error      { return s.raw.SetDeadline(t) }
func (s *stream) SetReadDeadline(t time.Time) error  { return s.raw.SetReadDeadline(t) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.raw.SetWriteDeadline(t) }

// pipe makes a stream a net.Conn, which crypto/tls wants.
type pipe struct{ wire.Stream }

// SetWriteDeadline does nothing: only the stream's user sets deadlines. When crypto/tls has said
// that no more follows it sets a deadline that has passed, and the end of the stream below could
// not be sent any more.
func (pipe) SetWriteDeadline(time.Time) error { return nil }

func (pipe) LocalAddr() net.Addr  { return pipeAddr{} }
func (pipe) RemoteAddr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "p2pdiloco" }
func (pipeAddr) String() string  { return "a forwarded stream" }
