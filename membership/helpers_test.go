package membership

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

func testRoot(n byte) slot.Root { return slot.Hash([]byte{n}) }

// testSigner signs with an Ed25519 key that follows from a number; its ID is the public key.
type testSigner struct{ key ed25519.PrivateKey }

func (s testSigner) ID() slot.PeerID { return slot.PeerID(s.key.Public().(ed25519.PublicKey)) }

func (s testSigner) Sign(data []byte) ([]byte, error) { return ed25519.Sign(s.key, data), nil }

func newTestSigner(n byte) testSigner {
	return testSigner{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))}
}

func testVerify(p slot.PeerID, data, sig []byte) bool {
	return len(p) == ed25519.PublicKeySize && ed25519.Verify(ed25519.PublicKey(p), data, sig)
}

func mustSeal(t testing.TB, s wire.Signer, run slot.Root, inc slot.Incarnation, body wire.Body) []byte {
	t.Helper()
	b, err := wire.Seal(s, run, inc, body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type brokenSigner struct{ testSigner }

func (brokenSigner) Sign([]byte) ([]byte, error) { return nil, errNoKey }

var errNoKey = errors.New("the key is gone")

// huge is a body above the cap.
type huge struct{}

func (huge) Type() slot.MessageType { return slot.TypeDraft }

func (huge) Append(b []byte) []byte { return append(b, make([]byte, slot.MaxMessage)...) }
