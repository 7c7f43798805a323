package bulk

import (
	"context"
	"crypto/rand"
	"net"
	"testing"
	"testing/synctest"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

func newKey(t *testing.T) (crypto.PrivKey, peer.ID) {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, id
}

func newTLS(t *testing.T) (*LargeTLS, peer.ID) {
	t.Helper()
	key, id := newKey(t)
	s, err := NewLargeTLS(libp2ptls.ID, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, id
}

// shake has one side dial the other, over a pipe.
func shake(t *testing.T, from, to *LargeTLS, id peer.ID) error {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	taken := make(chan error, 1)
	go func() {
		c, err := to.SecureInbound(context.Background(), b, "")
		if err == nil && c.RemotePeer() != from.self {
			t.Errorf("%s came as %s", from.self, c.RemotePeer())
		}
		taken <- err
	}()
	c, err := from.SecureOutbound(context.Background(), a, id)
	if err == nil {
		go c.Read(make([]byte, 1)) //nolint:errcheck // it takes the alert of a refusal
	}
	if refused := <-taken; refused != nil {
		return refused
	}
	return err
}

// A bubble's clock begins in the year 2000, and what is made outside is of now: the certificate of
// a peer whose clock is decades ahead.
func TestAFastClockIsNoObstacle(t *testing.T) {
	fast, fastID := newTLS(t)
	stock, _ := newTLS(t)
	key, _ := newKey(t)
	var err error
	if stock.identity, err = libp2ptls.NewIdentity(key); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		here, hereID := newTLS(t)
		if err := shake(t, fast, here, hereID); err != nil {
			t.Errorf("a peer whose clock is ahead dials: %v", err)
		}
		if err := shake(t, here, fast, fastID); err != nil {
			t.Errorf("a peer whose clock is ahead is dialled: %v", err)
		}
		if shake(t, stock, here, hereID) == nil {
			t.Error("libp2p's own certificate is taken: it knows no better any more, and neither need we")
		}
	})
}
