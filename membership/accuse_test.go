package membership

import (
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// unconvinced is a checker to which no proof proves anything. Its errors are its own, as those of
// package auditor are.
type unconvinced struct{ looks *int }

var errUnconvinced = errors.New("it proves nothing")

func (u unconvinced) FalseOutcome(slot.PeerID, wire.Segment, []byte) error {
	*u.looks++
	return errUnconvinced
}

func (u unconvinced) FalseOffer(slot.Offer, []byte) error {
	*u.looks++
	return errUnconvinced
}

// Accusations that prove nothing evict nobody, are counted against their sender, and are not looked
// at any more after some.
func TestFalseAccusationsAreCounted(t *testing.T) {
	l := labOf(t, "ABCD")
	l.exact = true
	a, victim, liar := l.peers[0], l.peers[1], l.peers[3]
	looks := 0
	a.m.cfg.Rules.CheckProof = unconvinced{&looks}
	for i := range byte(3 * mostFalse) {
		offer := wire.Offer{Offer: slot.Offer{Peer: victim.id, Slot: 1, Seq: 1, Weight: 1}}
		signed := labSigned(victim, offer)
		_ = a.step(labSigned(liar, wire.Evidence{
			Kind: wire.KindFalseOffer, Peer: victim.id, Incarnation: victim.inc,
			First:  wire.SignedBody{Body: offer.Append(nil), Sig: signed.Sig},
			Second: wire.SignedBody{Body: []byte{i}},
		}))
	}
	told := l.count(a.name, EventRefused)
	if looks != mostFalse || told != mostFalse || len(a.m.evidence.evictions) > 0 {
		t.Errorf("%d of %d proofs were looked at, %d told of, %d peers evicted", looks, 3*mostFalse, told,
			len(a.m.evidence.evictions))
	}
}
