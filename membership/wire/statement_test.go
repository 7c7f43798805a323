package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func testAttachments() Attachments {
	return Attachments{
		Leaves: []SignedLeave{
			{Peer: "a", Incarnation: 1, Leave: Leave{Since: 4}, Sig: []byte("leave a")},
			{Peer: "b", Incarnation: 2, Leave: Leave{Since: 5}, Sig: []byte("leave b")},
		},
		Retired: []SignedRetired{{Peer: "c", Incarnation: 9, Retired: Retired{Old: 3}, Sig: []byte("retired")}},
		Statements: []SignedStatement{
			{Peer: "d", Incarnation: 4, Unheard: slot.Bitmap{1}, Mute: slot.Bitmap{2}, Sig: []byte("d says")},
			{Peer: "e", Incarnation: 5, Unheard: slot.Bitmap{1}, Mute: slot.Bitmap{}, Sig: []byte("e says")},
		},
		Evidence: []Evidence{testEvidence("f"), testEvidence("g")},
	}
}

func testEvidence(p slot.PeerID) Evidence {
	return Evidence{
		Kind: slot.TypeVote, Peer: p, Incarnation: 5,
		First:  SignedBody{Body: []byte("one"), Sig: []byte("signed")},
		Second: SignedBody{Body: []byte("two"), Sig: []byte("too")},
	}
}

func readWhole(b []byte) (Attachments, error) {
	r := canonical.NewReader(b)
	a := ReadAttachments(r)
	return a, r.Done()
}

// One value has one encoding, and each list is bounded.
func TestAttachmentsAreSortedAndBounded(t *testing.T) {
	cases := map[string]func(*Attachments){
		"leaves":     func(a *Attachments) { a.Leaves[0].Peer = "b" },
		"retired":    func(a *Attachments) { a.Retired = append(a.Retired, a.Retired[0]) },
		"statements": func(a *Attachments) { a.Statements[1].Peer = "a" },
		"evidence":   func(a *Attachments) { a.Evidence[1].Peer = "f" },
		"too much evidence": func(a *Attachments) {
			for p := rune('h'); len(a.Evidence) <= MaxEvidence; p++ {
				a.Evidence = append(a.Evidence, testEvidence(slot.PeerID(p)))
			}
		},
	}
	for name, change := range cases {
		a := testAttachments()
		change(&a)
		if _, err := readWhole(a.Append(nil)); !errors.Is(err, canonical.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// signedAttachments has one attachment of each kind, all signed for a position.
func signedAttachments(at Position, run slot.Root) Attachments {
	s := newTestSigner(1)
	sign := func(inc slot.Incarnation, body Body) []byte {
		sig, _ := s.Sign(slot.SignedBytes(body.Type(), run, s.ID(), inc, body.Append(nil)))
		return sig
	}
	v, w := testVote(), testVote()
	w.Hash = testRoot(99)
	leave, retired := Leave{Since: 4}, Retired{Old: 1}
	state := Statement{Position: at, Unheard: slot.Bitmap{1}, Mute: slot.Bitmap{2}}
	return Attachments{
		Leaves:  []SignedLeave{{Peer: s.ID(), Incarnation: 1, Leave: leave, Sig: sign(1, leave)}},
		Retired: []SignedRetired{{Peer: s.ID(), Incarnation: 2, Retired: retired, Sig: sign(2, retired)}},
		Statements: []SignedStatement{
			{Peer: s.ID(), Incarnation: 1, Unheard: state.Unheard, Mute: state.Mute, Sig: sign(1, state)},
		},
		Evidence: []Evidence{{
			Kind: slot.TypeVote, Peer: s.ID(), Incarnation: 1,
			First:  SignedBody{Body: v.Append(nil), Sig: sign(1, Vote{v})},
			Second: SignedBody{Body: w.Append(nil), Sig: sign(1, Vote{w})},
		}},
	}
}

// No field of an attachment can be changed by whoever passes it on, and a statement counts at its
// own position alone.
func TestAttachmentsAreSigned(t *testing.T) {
	at, run := Position{7, testRoot(2)}, testRoot(1)
	if err := signedAttachments(at, run).check(at, run, testVerify); err != nil {
		t.Fatal(err)
	}
	before := signedAttachments(Position{6, testRoot(2)}, run)
	if err := before.check(at, run, testVerify); !errors.Is(err, ErrSignature) {
		t.Errorf("a statement about another position: %v", err)
	}
	if err := signedAttachments(at, testRoot(5)).check(at, run, testVerify); !errors.Is(err, ErrSignature) {
		t.Errorf("attachments of another run: %v", err)
	}
	a := signedAttachments(at, run)
	eachField(reflect.ValueOf(&a).Elem(), "", func(name string) {
		if err := a.check(at, run, testVerify); !errors.Is(err, ErrSignature) {
			t.Errorf("%s changed: %v", name, err)
		}
	})
}

func FuzzReadAttachments(f *testing.F) {
	f.Add(Attachments{}.Append(nil))
	f.Add(testAttachments().Append(nil))
	f.Add(signedAttachments(Position{7, testRoot(2)}, testRoot(1)).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		switch a, err := readWhole(b); {
		case err == nil && !bytes.Equal(a.Append(nil), b):
			t.Fatalf("%x parses to %+v, which is %x", b, a, a.Append(nil))
		case err != nil && !errors.Is(err, canonical.ErrMalformed):
			t.Fatalf("%v is not ErrMalformed", err)
		}
	})
}
