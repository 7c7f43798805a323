package wire

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// testSigner signs with an Ed25519 key that follows from a number; its ID is the public key.
type testSigner struct{ key ed25519.PrivateKey }

func newTestSigner(n byte) testSigner {
	return testSigner{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))}
}

func (s testSigner) ID() slot.PeerID { return slot.PeerID(s.key.Public().(ed25519.PublicKey)) }

func (s testSigner) Sign(data []byte) ([]byte, error) { return ed25519.Sign(s.key, data), nil }

func testVerify(p slot.PeerID, data, sig []byte) bool {
	return len(p) == ed25519.PublicKeySize && ed25519.Verify(ed25519.PublicKey(p), data, sig)
}

func mustSeal(t testing.TB, s Signer, run slot.Root, inc slot.Incarnation, body Body) []byte {
	t.Helper()
	b, err := Seal(s, run, inc, body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSealAndOpen(t *testing.T) {
	signer, run := newTestSigner(1), testRoot(1)
	for _, body := range testBodies() {
		b := mustSeal(t, signer, run, 42, body)
		m, err := Open(b, run, testVerify)
		if err != nil {
			t.Fatalf("%T: %v", body, err)
		}
		clear(b) // the message must not lean on the bytes it came in
		if m.From != signer.ID() || m.Incarnation != 42 || !reflect.DeepEqual(m.Body, body) {
			t.Errorf("%T came back as %+v", body, m)
		}
		if !testVerify(m.From, slot.SignedBytes(body.Type(), run, m.From, 42, body.Append(nil)), m.Sig) {
			t.Errorf("%T: the signature would not do in a certificate", body)
		}
	}
}

// No bit of a sealed message can be changed.
func TestOpenRefusesEveryChange(t *testing.T) {
	run := testRoot(1)
	b := mustSeal(t, newTestSigner(1), run, 42, Vote{Vote: testVote()})
	for i := range b {
		for bit := range 8 {
			bad := bytes.Clone(b)
			bad[i] ^= 1 << bit
			if m, err := Open(bad, run, testVerify); err == nil {
				t.Errorf("bit %d of byte %d changed: opened as %+v", bit, i, m)
			}
		}
		if _, err := Open(b[:i], run, testVerify); err == nil {
			t.Errorf("cut to %d bytes: opened", i)
		}
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	signer, run := newTestSigner(1), testRoot(1)
	good := mustSeal(t, signer, run, 42, Leave{})
	version := bytes.Clone(good)
	version[0] = 2
	forged := bytes.Clone(good)
	forged[len(forged)-1] ^= 1
	retyped := bytes.Clone(good)
	retyped[1] = byte(slot.TypeJoin)
	cases := []struct {
		name string
		b    []byte
		want error
	}{
		{"another run", mustSeal(t, signer, testRoot(2), 42, Leave{}), ErrForeignRun},
		{"a wrong signature", forged, ErrSignature},
		{"another type", retyped, ErrSignature},
		{"signed nonsense", mustSeal(t, signer, run, 42, nonsense{}), canonical.ErrMalformed},
		{"bytes after it", append(bytes.Clone(good), 0), canonical.ErrMalformed},
		{"nothing", nil, canonical.ErrMalformed},
		{"too much", make([]byte, slot.MaxMessage+1), canonical.ErrTooLarge},
	}
	for _, c := range cases {
		if _, err := Open(c.b, run, testVerify); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	var other *canonical.VersionError
	if _, err := Open(version, run, testVerify); !errors.As(err, &other) || other.Theirs != "2" {
		t.Errorf("of version 2: %v", err)
	}
}

// nonsense is a signed body that does not parse.
type nonsense struct{}

func (nonsense) Type() slot.MessageType { return slot.TypeNeed }
func (nonsense) Append(b []byte) []byte { return append(b, "nonsense at length"...) }

func FuzzOpen(f *testing.F) {
	signer, run := newTestSigner(1), testRoot(1)
	for _, body := range testBodies() {
		f.Add(mustSeal(f, signer, run, 42, body))
	}
	anything := func(slot.PeerID, []byte, []byte) bool { return true }
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Open(b, run, anything)
		if err != nil {
			return
		}
		again, err := Seal(replayed{m}, run, m.Incarnation, m.Body)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x opens as %+v, which seals to %x (%v)", b, m, again, err)
		}
	})
}

// replayed gives a message the signature that it had.
type replayed struct{ m Message }

func (r replayed) ID() slot.PeerID             { return r.m.From }
func (r replayed) Sign([]byte) ([]byte, error) { return r.m.Sig, nil }

// What a received message costs before the machine sees it: mostly the signature.
func BenchmarkOpen(b *testing.B) {
	run := testRoot(1)
	m := mustSeal(b, newTestSigner(1), run, 42, Vote{Vote: testVote()})
	for b.Loop() {
		if _, err := Open(m, run, testVerify); err != nil {
			b.Fatal(err)
		}
	}
}

func TestWhatMayBeAnnounced(t *testing.T) {
	run, signer := testRoot(1), newTestSigner(1)
	direct := []string{"NEED", "ASK", "PAST", "PART"}
	for _, body := range testBodies() {
		b := mustSeal(t, signer, run, 5, body)
		kind := TypeName(body.Type())
		if got, want := MayAnnounce(b, run, signer.ID()), !slices.Contains(direct, kind); got != want {
			t.Errorf("%s may be announced: %v", kind, got)
		}
		if got, want := MayFallBack(b), kind != "COMMIT" && !slices.Contains(direct, kind); got != want {
			t.Errorf("%s may be gossiped for want of a stream: %v", kind, got)
		}
		if MayAnnounce(b, testRoot(2), signer.ID()) || MayAnnounce(b, run, newTestSigner(2).ID()) ||
			MayAnnounce(b[:40], run, signer.ID()) {
			t.Errorf("%s of another run, under another name or cut off may be announced", kind)
		}
	}
	if MayFallBack(nil) || MayAnnounce(nil, run, signer.ID()) {
		t.Error("nothing may be announced")
	}
}
