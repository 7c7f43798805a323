package discovery

import (
	"crypto/x509"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// quicHost is a host on loopback whose certificate holds from a time on.
func quicHost(t *testing.T, from time.Time) host.Host {
	t.Helper()
	h, err := libp2p.New(libp2p.ListenAddrStrings("/ip4/127.0.0.1/udp/0/quic-v1"),
		libp2p.Transport(quic.NewTransport, quic.WithTLSIdentityOption(libp2ptls.WithCertTemplate(
			&x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.Add(24 * time.Hour)}))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// A bootstrap node that refuses a peer in the handshake, as it did with a peer whose clock was 90
// minutes fast, has taken the connection all the same, by what the peer's side sees. That is no
// answer: a run is founded when a node has answered and nobody knows the run.
func TestARefusalInTheHandshakeIsNoAnswer(t *testing.T) {
	boot := quicHost(t, time.Now().Add(-time.Hour))
	newNode(t, boot, lan())
	addrs, err := peer.AddrInfoToP2pAddrs(host.InfoFromHost(boot))
	if err != nil {
		t.Fatal(err)
	}
	cfg := lan()
	cfg.Bootstrap = []string{addrs[0].String()}
	until := func(n *node, done func(peers.BootstrapState) bool) (s peers.BootstrapState) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
			if s = n.env.Dialer.Bootstrap(); done(s) {
				return s
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("it goes on as %+v", s)
		return s
	}
	refused := newNode(t, quicHost(t, time.Now().Add(30*time.Minute)), cfg)
	s := until(refused, func(s peers.BootstrapState) bool { return s.Attempts >= 3 })
	if s.Answered || !errors.Is(s.Err(), peers.ErrNoBootstrap) {
		t.Errorf("a node that refused this peer has answered: %+v", s)
	}
	taken := newNode(t, quicHost(t, time.Now().Add(-time.Hour)), cfg)
	until(taken, func(s peers.BootstrapState) bool { return s.Answered })
}
