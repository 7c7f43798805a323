package p2p

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

// largeTLS is libp2p's TLS, whose records leave and arrive many at a time. Nothing on the wire is different.
type largeTLS struct{ *libp2ptls.Transport }

var _ sec.SecureTransport = largeTLS{}

// newLargeTLS is for libp2p.Security.
func newLargeTLS(id protocol.ID, key crypto.PrivKey, muxers []upgrader.StreamMuxer) (largeTLS, error) {
	t, err := libp2ptls.New(id, key, muxers)
	return largeTLS{t}, err
}

// SecureInbound implements sec.SecureTransport.
func (t largeTLS) SecureInbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	return large(insecure, func(c net.Conn) (sec.SecureConn, error) { return t.Transport.SecureInbound(ctx, c, p) })
}

// SecureOutbound implements sec.SecureTransport.
func (t largeTLS) SecureOutbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	return large(insecure, func(c net.Conn) (sec.SecureConn, error) { return t.Transport.SecureOutbound(ctx, c, p) })
}

func large(insecure net.Conn, shake func(net.Conn) (sec.SecureConn, error)) (sec.SecureConn, error) {
	c := newRecordConn(insecure)
	c.restrain(maxHandshake)
	s, err := shake(c)
	if err != nil {
		return nil, err
	}
	c.release()
	return &largeConn{SecureConn: s, records: c}, nil
}

// largeConn is a secured connection whose Write leaves at once.
type largeConn struct {
	sec.SecureConn
	records *recordConn
}

// Write implements net.Conn. It is called by one goroutine at a time, a muxer's.
func (c *largeConn) Write(b []byte) (int, error) {
	c.records.gather()
	n, err := c.SecureConn.Write(b)
	if ferr := c.records.flush(); err == nil && ferr != nil {
		return 0, ferr // what has left is unknown; a muxer gives up in any case
	}
	return n, err
}

var _ network.ConnSecurity = (*largeConn)(nil)
