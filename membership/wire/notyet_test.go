package wire

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The layout of docs/protocol.md, written down by hand.
func TestGoldenNotYet(t *testing.T) {
	m := NotYet{
		Ref: slot.Ref{Height: 9, Prev: slot.Root{0x22}, Ballot: 1}, About: slot.Root{0x33}, Rule: RuleOffers,
		Whom:   slot.Bitmap{5},
		Offers: []slot.Offer{{Peer: "a", Slot: 3, Seq: 4, Base: 2, Weight: 5, NormSq: 2, Steps: 50, StepTime: 2000}},
		Proofs: []OfferProof{{Incarnation: 7, Sig: []byte{0xdd}}},
	}
	zeros := func(n int) string { return strings.Repeat("00", n) }
	signed := "0000000000000009 22" + zeros(31) + " 00000001 33" + zeros(31) + " 01 00000001 05"
	carried := "00000001 00000001 61 0000000000000003 0000000000000004 0000000000000002 0000000000000005 " + zeros(32) +
		" 4000000000000000 00000032 000007d0 00000001 0000000000000007 00000001 dd"
	for what, c := range map[string]struct {
		got  []byte
		want string
	}{"signed": {m.Append(nil), signed}, "carried": {m.appendCarried(nil), carried}} {
		if got, want := hex.EncodeToString(c.got), strings.ReplaceAll(c.want, " ", ""); got != want {
			t.Errorf("%s bytes:\n%s, want\n%s", what, got, want)
		}
	}
}

func TestNotYetIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*NotYet)
		signed bool // in the signed part
	}{
		"no rule":              {func(m *NotYet) { m.Rule = 0 }, true},
		"an unknown rule":      {func(m *NotYet) { m.Rule = RuleAudit + 1 }, true},
		"more than all":        {func(m *NotYet) { m.Whom = make(slot.Bitmap, slot.MaxMembers/8+1) }, true},
		"of another rule":      {func(m *NotYet) { m.Rule = RuleElectors }, false},
		"without a proof":      {func(m *NotYet) { m.Proofs = m.Proofs[:1] }, false},
		"proofs of nothing":    {func(m *NotYet) { m.Offers = nil }, false},
		"two offers of a peer": {func(m *NotYet) { m.Offers[1].Peer = "a" }, false},
		"too many offers": {func(m *NotYet) {
			for p := rune('c'); len(m.Offers) <= MaxHanded; p++ {
				m.Offers, m.Proofs = append(m.Offers, testOffer(slot.PeerID(p))), append(m.Proofs, OfferProof{})
			}
		}, false},
	} {
		m := NotYet{
			Ref: testRef(), Rule: RuleOffers, Whom: slot.Bitmap{3},
			Offers: []slot.Offer{testOffer("a"), testOffer("b")}, Proofs: testProofs(),
		}
		c.change(&m)
		body, err := ParseBody(m.Type(), m.Append(nil))
		if err == nil {
			_, err = parseCarried(body, m.appendCarried(nil))
		} else if !c.signed {
			t.Errorf("%s: the signed part is refused: %v", name, err)
		}
		if !errors.Is(err, canonical.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever hands offers over cannot make them up.
func TestHandedOffersAreSigned(t *testing.T) {
	s, run := newTestSigner(1), testRoot(1)
	o := testOffer(s.ID())
	sig, _ := s.Sign(slot.SignedBytes(slot.TypeOffer, run, s.ID(), 1, o.Append(nil)))
	m := NotYet{Rule: RuleOffers, Offers: []slot.Offer{o}, Proofs: []OfferProof{{Incarnation: 1, Sig: sig}}}
	if err := CheckProofs(m, run, testVerify); err != nil || !HasProofs(m) {
		t.Errorf("proofs %v: %v", HasProofs(m), err)
	}
	m.Offers[0].Weight++
	if err := CheckProofs(m, run, testVerify); !errors.Is(err, ErrSignature) {
		t.Errorf("another weight: %v", err)
	}
}
