package tcpnet

import (
	"context"
	"net"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

// LargeTLS is libp2p's TLS, whose records leave and arrive many at a time. Nothing on the wire is
// different.
type LargeTLS struct{ *libp2ptls.Transport }

var _ sec.SecureTransport = LargeTLS{}

// NewLargeTLS is for libp2p.Security.
func NewLargeTLS(id protocol.ID, key crypto.PrivKey, muxers []upgrader.StreamMuxer) (LargeTLS, error) {
	t, err := libp2ptls.New(id, key, muxers)
	return LargeTLS{t}, err
}

// SecureInbound implements sec.SecureTransport.
func (t LargeTLS) SecureInbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	return large(insecure, func(c net.Conn) (sec.SecureConn, error) { return t.Transport.SecureInbound(ctx, c, p) })
}

// SecureOutbound implements sec.SecureTransport.
func (t LargeTLS) SecureOutbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	return large(insecure, func(c net.Conn) (sec.SecureConn, error) { return t.Transport.SecureOutbound(ctx, c, p) })
}

func large(insecure net.Conn, shake func(net.Conn) (sec.SecureConn, error)) (sec.SecureConn, error) {
	c := NewRecordConn(insecure)
	c.Restrain(MaxHandshake)
	s, err := shake(c)
	if err != nil {
		return nil, err
	}
	c.Release()
	return &largeConn{SecureConn: s, records: c}, nil
}

// largeConn is a secured connection whose Write leaves at once.
type largeConn struct {
	sec.SecureConn
	records *RecordConn
}

// Write implements net.Conn. It is called by one goroutine at a time, a muxer's.
func (c *largeConn) Write(b []byte) (int, error) {
	c.records.Gather()
	n, err := c.SecureConn.Write(b)
	if ferr := c.records.Flush(); err == nil && ferr != nil {
		return 0, ferr // what has left is unknown; a muxer gives up in any case
	}
	return n, err
}

var _ network.ConnSecurity = (*largeConn)(nil)
