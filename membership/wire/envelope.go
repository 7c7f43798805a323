package wire

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// MaxAnnouncement is the largest sealed message, in bytes, that is gossiped: gossip carries less
// than 64 KiB at a time, and its own frame needs some of that. What is larger goes by direct stream
// alone; a COMMIT is then asked for with NEED.
const MaxAnnouncement = 63 << 10

// Signer signs with the peer's libp2p key.
type Signer interface {
	ID() slot.PeerID
	Sign(data []byte) ([]byte, error)
}

// Seal signs a body and puts it into wire form: canonical.Version, type u8, run, signer,
// incarnation, body, signature, and what the body carries beside its signed bytes.
func Seal(signer Signer, run slot.Root, inc slot.Incarnation, body Body) ([]byte, error) {
	_, b, err := SealMessage(signer, run, inc, body)
	return b, err
}

// SealMessage signs a message. It returns the message as others will receive it, and its bytes.
func SealMessage(signer Signer, run slot.Root, inc slot.Incarnation, body Body) (Message, []byte, error) {
	from, t, raw := signer.ID(), body.Type(), body.Append(nil)
	sig, err := signer.Sign(slot.SignedBytes(t, run, from, inc, raw))
	if err != nil {
		return Message{}, nil, fmt.Errorf("sign %s message: %w", TypeName(t), err)
	}
	m := Message{From: from, Incarnation: inc, Body: body, Sig: sig}
	b := m.Sealed(run)
	if len(b) > slot.MaxMessage {
		return Message{}, nil, fmt.Errorf("%s message of %d bytes: %w (%d)", TypeName(t), len(b), canonical.ErrTooLarge,
			slot.MaxMessage)
	}
	return m, b, nil
}

// Sealed returns a signed message in wire form. A body that carries less, and has the same signed
// bytes, may take the place of the one that was signed.
func (m Message) Sealed(run slot.Root) []byte {
	raw := m.Body.Append(nil)
	b := make([]byte, 0, 64+len(m.From)+len(raw)+len(m.Sig))
	b = canonical.AppendU8(canonical.AppendU8(b, canonical.Version), uint8(m.Body.Type()))
	b = canonical.AppendU64(appendPeer(AppendRoot(b, run), m.From), uint64(m.Incarnation))
	b = canonical.AppendBytes(canonical.AppendBytes(b, raw), m.Sig)
	if c, ok := m.Body.(carrier); ok {
		b = c.appendCarried(b)
	}
	return b
}

// Open takes a sealed message apart: size, version, run, then the signature, and only then the
// body. The result shares no memory with b.
func Open(b []byte, run slot.Root, verify slot.Verifier) (Message, error) {
	if len(b) > slot.MaxMessage {
		return Message{}, fmt.Errorf("message of %d bytes: %w (%d)", len(b), canonical.ErrTooLarge, slot.MaxMessage)
	}
	r := canonical.NewReader(b)
	if v := r.U8(); r.Err() == nil && v != canonical.Version {
		return Message{}, &canonical.VersionError{What: "the message", Theirs: fmt.Sprint(v)}
	}
	t, theirs := slot.MessageType(r.U8()), ReadRoot(r)
	m := Message{From: readPeer(r), Incarnation: slot.Incarnation(r.U64())}
	raw, sig, carried := r.Bytes(slot.MaxMessage), r.Bytes(slot.MaxSigLen), r.Take(r.Len())
	if err := r.Done(); err != nil {
		return Message{}, fmt.Errorf("sealed message of %d bytes: %w", len(b), err)
	}
	if theirs != run {
		return Message{}, fmt.Errorf("%w: %s from %s is for run %s, this is run %s", ErrForeignRun, TypeName(t),
			m.From.Short(), theirs.Short(), run.Short())
	}
	if !verify(m.From, slot.SignedBytes(t, run, m.From, m.Incarnation, raw), sig) {
		return Message{}, fmt.Errorf("%w: %s said to be from %s", ErrSignature, TypeName(t), m.From)
	}
	var err error
	if m.Body, err = ParseBody(t, raw); err == nil {
		m.Body, err = parseCarried(m.Body, carried)
	}
	if err != nil {
		return Message{}, fmt.Errorf("from %s: %w", m.From.Short(), err)
	}
	m.Sig = append([]byte{}, sig...)
	return m, nil
}

// IncarnationOf returns the incarnation that a sealed message names, 0 if that cannot be read.
func IncarnationOf(b []byte) slot.Incarnation {
	r := canonical.NewReader(b)
	_, _, _, _ = r.U8(), r.U8(), ReadRoot(r), readPeer(r)
	return slot.Incarnation(r.U64())
}

// MayAnnounce says, for a gossip validator, whether bytes that a peer announced may be passed on
// and delivered. They must be of this run and this version and bear that peer's name; Open checks
// the signature itself. NEED, ASK and PART are never announced: everybody would answer them. PAST
// is the answer to one peer.
func MayAnnounce(b []byte, run slot.Root, author slot.PeerID) bool {
	r := canonical.NewReader(b)
	version, t, theirs, from := r.U8(), slot.MessageType(r.U8()), ReadRoot(r), readPeer(r)
	// what cannot be read has no author
	return version == canonical.Version && theirs == run && from == author && !isDirect(t)
}

// MayFallBack says whether a sealed message that could not be sent directly may be gossiped
// instead. Records may not: they were gossiped when they were certified, and anybody, also under a
// name that cannot be reached, may ask for any number of them.
func MayFallBack(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	t := slot.MessageType(b[1])
	return t != slot.TypeCommit && !isDirect(t)
}

// isDirect says whether messages of a type are for one peer alone.
func isDirect(t slot.MessageType) bool {
	return t == slot.TypeNeed || t == slot.TypeAsk
}
