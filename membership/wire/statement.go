package wire

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Statement says which members of the newest record its sender, an elector, would drop. A member is
// in one of the two sets at most. Statements are about one position, so old ones are of no use. One
// that says more may replace an earlier one.
type Statement struct {
	Position
	Unheard slot.Bitmap // over the members: not heard
	Mute    slot.Bitmap // over the members: heard, and they take no part in decisions
}

// Retired says that the vote log of an earlier incarnation of its sender is gone, so that nobody
// will ever vote as that one again.
type Retired struct{ Old slot.Incarnation }

// Type implements Body.
func (Statement) Type() slot.MessageType { return slot.TypeStatement }

// Type implements Body.
func (Retired) Type() slot.MessageType { return slot.TypeRetired }

// At is the position that the statement is about, at ballot 0.
func (m Statement) At() slot.Ref { return slot.Ref{Height: m.Height, Prev: m.Prev} }

// Append implements Body.
func (m Statement) Append(b []byte) []byte {
	b = AppendRoot(canonical.AppendU64(b, m.Height), m.Prev)
	return canonical.AppendBytes(canonical.AppendBytes(b, m.Unheard), m.Mute)
}

// Append implements Body.
func (m Retired) Append(b []byte) []byte { return canonical.AppendU64(b, uint64(m.Old)) }

func readStatement(r *canonical.Reader) Statement {
	return Statement{Position: Position{r.U64(), ReadRoot(r)}, Unheard: readSet(r), Mute: readSet(r)}
}

func readRetired(r *canonical.Reader) Retired { return Retired{slot.Incarnation(r.U64())} }

func readSet(r *canonical.Reader) slot.Bitmap {
	return append(slot.Bitmap{}, r.Bytes(slot.MaxMembers/8)...)
}

// Attachments prove that a record may drop members. Whoever drafts the record collects them, and
// who is shown the draft needs to have heard none of them before. Records carry none: their
// certificates vouch for them.
type Attachments struct {
	Leaves     []SignedLeave     // sorted by peer, one each
	Retired    []SignedRetired   // sorted by peer, one each
	Statements []SignedStatement // sorted by peer, one each
	Evidence   []Evidence        // sorted by peer, one each
}

// SignedLeave is the LEAVE of a member.
type SignedLeave struct {
	Peer        slot.PeerID
	Incarnation slot.Incarnation
	Leave
	Sig []byte
}

// SignedRetired is the RETIRED that a peer has signed in a new incarnation.
type SignedRetired struct {
	Peer        slot.PeerID
	Incarnation slot.Incarnation
	Retired
	Sig []byte
}

// SignedStatement is the STATEMENT of an elector. Its position is that of the record.
type SignedStatement struct {
	Peer          slot.PeerID
	Incarnation   slot.Incarnation
	Unheard, Mute slot.Bitmap
	Sig           []byte
}

// MaxEvidence is the most evidence that is attached to one record, so that it fits into a message.
const MaxEvidence = 64

// check verifies all signatures, for a record at a position. Whose they must be, and what they
// prove, the machine says.
func (a Attachments) check(at Position, run slot.Root, verify slot.Verifier) error {
	signed := func(p slot.PeerID, inc slot.Incarnation, body Body, sig []byte) error {
		if verify(p, slot.SignedBytes(body.Type(), run, p, inc, body.Append(nil)), sig) {
			return nil
		}
		return fmt.Errorf("%w: a %s is attached that %s did not sign", ErrSignature, TypeName(body.Type()), p.Short())
	}
	for _, l := range a.Leaves {
		if err := signed(l.Peer, l.Incarnation, l.Leave, l.Sig); err != nil {
			return err
		}
	}
	for _, x := range a.Retired {
		if err := signed(x.Peer, x.Incarnation, x.Retired, x.Sig); err != nil {
			return err
		}
	}
	for _, s := range a.Statements {
		body := Statement{Position: at, Unheard: s.Unheard, Mute: s.Mute}
		if err := signed(s.Peer, s.Incarnation, body, s.Sig); err != nil {
			return err
		}
	}
	for _, e := range a.Evidence {
		if !e.Signed(run, verify) {
			return fmt.Errorf("%w: evidence is attached that %s did not sign", ErrSignature, e.Peer.Short())
		}
	}
	return nil
}

// Types returns the types of the two messages. A proof is no message: it has type 0.
func (e Evidence) Types() [2]slot.MessageType {
	switch e.Kind { //nolint:exhaustive // all other kinds are of two messages of one type
	case KindFalseOutcome:
		return [2]slot.MessageType{slot.TypeSegment}
	case KindFalseOffer:
		return [2]slot.MessageType{slot.TypeOffer}
	}
	return [2]slot.MessageType{e.Kind, e.Kind}
}

// Signed says whether the incarnation that the evidence is against has signed both messages, or the
// one that a proof convicts it of.
func (e Evidence) Signed(run slot.Root, verify slot.Verifier) bool {
	types, signed := e.Types(), []SignedBody{e.First, e.Second}
	if e.Proven() {
		if len(e.Second.Sig) > 0 {
			return false
		}
		signed = signed[:1]
	}
	for i, s := range signed {
		if !verify(e.Peer, slot.SignedBytes(types[i], run, e.Peer, e.Incarnation, s.Body), s.Sig) {
			return false
		}
	}
	return true
}
