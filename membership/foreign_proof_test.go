package membership

import (
	"errors"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A proof is about what a peer has signed. Anybody can reduce something false and prove that it is;
// what another peer signed, or this one in another life, run or kind of message, convicts nobody,
// and that is said in words. So it is where a leader attaches it to a draft.
func TestProofsWithAForeignSignature(t *testing.T) {
	for name, kind := range map[string]slot.MessageType{
		"outcome": wire.KindFalseOutcome, "offer": wire.KindFalseOffer,
	} {
		l := auditedLab(t, "ABCD")
		l.manual = true
		a, b, c := l.peers[0], l.peers[1], l.peers[2]
		root := slot.Root{byte(kind)}
		l.audits.lies[root], l.audits.offers[root] = true, true
		said := wire.Body(wire.Segment{Ref: a.m.chain.Next(), Segment: slot.Segment{Root: root}})
		if kind == wire.KindFalseOffer {
			said = wire.Offer{Offer: slot.Offer{Peer: c.id, Slot: 9, Seq: 9, Weight: 1, Root: root}}
		}
		proof := func(by *labPeer, typ slot.MessageType, run slot.Root, inc slot.Incarnation) wire.Evidence {
			body := said.Append(nil)
			return wire.Evidence{
				Kind: kind, Peer: c.id, Incarnation: c.inc,
				First: wire.SignedBody{
					Body: body, Sig: labSign(by.id, slot.SignedBytes(typ, run, c.id, inc, body)),
				},
				Second: wire.SignedBody{Body: l.audits.proof(root)},
			}
		}
		for how, e := range map[string]wire.Evidence{
			"of another peer":    proof(b, said.Type(), l.rules.Run, c.inc),
			"of another life":    proof(c, said.Type(), l.rules.Run, c.inc+1),
			"of another run":     proof(c, said.Type(), slot.Root{1}, c.inc),
			"of another message": proof(c, slot.TypeVote, l.rules.Run, c.inc),
		} {
			clear(a.m.evidence.accusing.idle) // else b is not listened to after three
			l.log = nil
			err := a.step(labSigned(b, e))
			if !errors.Is(err, chain.ErrInvalid) || !strings.Contains(err.Error(), "evidence with a wrong signature") ||
				len(a.m.evidence.evictions) > 0 {
				t.Errorf("%s, %s: %v, %d evicted", name, how, err, len(a.m.evidence.evictions))
			}
			if log := strings.Join(l.log, "\n"); !strings.Contains(log, "proves nothing") ||
				!strings.Contains(log, "evidence with a wrong signature") {
				t.Errorf("%s, %s: it is not said: %s", name, how, log)
			}
			attached := wire.Draft{Drafted: wire.Drafted{Attached: wire.Attachments{Evidence: []wire.Evidence{e}}}}
			if err := wire.CheckProofs(attached, l.rules.Run, labVerify); !errors.Is(err, wire.ErrSignature) ||
				!strings.Contains(err.Error(), "evidence is attached that "+c.id.Short()+" did not sign") {
				t.Errorf("%s, %s, in a draft: %v", name, how, err)
			}
		}
		if err := a.step(labSigned(b, proof(c, said.Type(), l.rules.Run, c.inc))); err != nil ||
			!a.m.evidence.evicted(memberKey{c.id, c.inc}) {
			t.Errorf("%s, signed by the peer itself: %v", name, err)
		}
	}
}
