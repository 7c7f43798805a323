package bulk

import (
	"context"
	"crypto/tls"
	"net"
	"slices"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

// LargeTLS is libp2p's TLS, whose records leave and arrive many at a time, and whose certificates
// hold at all times (NewIdentity). Nothing else on the wire is different.
type LargeTLS struct {
	id       protocol.ID
	self     peer.ID
	identity *libp2ptls.Identity
	muxers   []string // that a handshake offers, the preferred first
}

// alpnLibp2p is what a handshake agrees on where the two sides have no muxer in common, or one of
// them agrees on a muxer only later.
const alpnLibp2p = "libp2p"

// NewLargeTLS is for libp2p.Security.
func NewLargeTLS(id protocol.ID, key crypto.PrivKey, muxers []upgrader.StreamMuxer) (*LargeTLS, error) {
	t := &LargeTLS{id: id}
	for _, m := range muxers {
		t.muxers = append(t.muxers, string(m.ID))
	}
	var err error
	if t.self, err = peer.IDFromPrivateKey(key); err != nil {
		return nil, err
	}
	t.identity, err = NewIdentity(key)
	return t, err
}

// ID implements sec.SecureTransport.
func (t *LargeTLS) ID() protocol.ID { return t.id }

// SecureInbound implements sec.SecureTransport. It takes the muxer that the client prefers, where
// TLS would take the one that the server does.
func (t *LargeTLS) SecureInbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	conf, keys := t.config(p)
	conf.GetConfigForClient = func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		for _, theirs := range info.SupportedProtos {
			if slices.Contains(t.muxers, theirs) {
				conf.NextProtos = []string{theirs}
				break
			}
		}
		return conf, nil
	}
	return t.secure(ctx, insecure, keys, conf, tls.Server)
}

// SecureOutbound implements sec.SecureTransport. It succeeds though the other side refuses this
// one's certificate: TLS 1.3 reports that with the first read.
func (t *LargeTLS) SecureOutbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	conf, keys := t.config(p)
	return t.secure(ctx, insecure, keys, conf, tls.Client)
}

// config is that of libp2p, with the muxers.
func (t *LargeTLS) config(p peer.ID) (*tls.Config, <-chan crypto.PubKey) {
	conf, keys := t.identity.ConfigForPeer(p)
	conf.NextProtos = slices.Concat(t.muxers, conf.NextProtos)
	return conf, keys
}

// secure shakes hands, and closes the connection if that fails.
func (t *LargeTLS) secure(ctx context.Context, insecure net.Conn, keys <-chan crypto.PubKey,
	conf *tls.Config, side func(net.Conn, *tls.Config) *tls.Conn,
) (sec.SecureConn, error) {
	records := NewRecordConn(insecure)
	records.Restrain(MaxHandshake)
	c := &largeConn{Conn: side(records, conf), self: t.self, records: records}
	err := c.HandshakeContext(ctx)
	if err == nil {
		c.peer, c.key, err = Proven(keys)
	}
	if err != nil {
		_ = insecure.Close() // the handshake's error says more
		return nil, err
	}
	records.Release()
	return c, nil
}

// largeConn is a secured connection whose Write leaves at once.
type largeConn struct {
	*tls.Conn
	self    peer.ID
	peer    peer.ID
	key     crypto.PubKey
	records *RecordConn
}

// Write implements net.Conn. It is called by one goroutine at a time, a muxer's.
func (c *largeConn) Write(b []byte) (int, error) {
	c.records.Gather()
	n, err := c.Conn.Write(b)
	if _, ferr := c.records.Flush(); err == nil && ferr != nil {
		return 0, ferr // what has left is unknown; a muxer gives up in any case
	}
	return n, err
}

// LocalPeer implements network.ConnSecurity.
func (c *largeConn) LocalPeer() peer.ID { return c.self }

// RemotePeer implements network.ConnSecurity.
func (c *largeConn) RemotePeer() peer.ID { return c.peer }

// RemotePublicKey implements network.ConnSecurity.
func (c *largeConn) RemotePublicKey() crypto.PubKey { return c.key }

// ConnState implements network.ConnSecurity.
func (c *largeConn) ConnState() network.ConnectionState {
	agreed := c.ConnectionState().NegotiatedProtocol
	if agreed == alpnLibp2p {
		return network.ConnectionState{}
	}
	return network.ConnectionState{StreamMultiplexer: protocol.ID(agreed), UsedEarlyMuxerNegotiation: agreed != ""}
}
