package proof

import (
	"crypto/hmac"
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Bounds on messages, in bytes.
const (
	MaxAnswer  = 64 << 10
	maxRefusal = 512
)

// The first byte of an Ask or an Answer says what it is.
const (
	bySecret = 1
	byToken  = 2
	admits   = 3
	refuses  = 4
)

// Ask is a peer's first message. It proves that the peer knows the secret or has a token.
type Ask struct {
	Token   bool // the next three are set
	ID      [ticket.IDSize]byte
	Expires uint64 // s since 1970
	Uses    uint32
	Proof   [32]byte
}

// body returns the bytes that the proof covers.
func (a Ask) body() []byte {
	if !a.Token {
		return []byte{bySecret}
	}
	return wire.AppendU32(wire.AppendU64(append([]byte{byToken}, a.ID[:]...), a.Expires), a.Uses)
}

// Append appends the canonical bytes.
func (a Ask) Append(b []byte) []byte { return append(append(b, a.body()...), a.Proof[:]...) }

// ParseAsk reads the canonical bytes.
func ParseAsk(b []byte) (a Ask, err error) {
	r := wire.NewReader(b)
	switch kind := r.U8(); kind {
	case bySecret:
	case byToken:
		a.Token = true
		copy(a.ID[:], r.Take(len(a.ID)))
		a.Expires, a.Uses = r.U64(), r.U32()
	default:
		r.Fail("kind %d of asking for admission", kind)
	}
	copy(a.Proof[:], r.Take(len(a.Proof)))
	return a, r.Done()
}

// Answer admits or refuses.
type Answer struct {
	Refusal string // the reason for a refusal; empty: admitted
	Secret  Secret // for a peer that asked with a token
	Told    Told   // tokens used so far
	Proof   [32]byte
}

func (a Answer) body() []byte {
	if a.Refusal != "" {
		return wire.AppendBytes([]byte{refuses}, a.Refusal)
	}
	b := wire.AppendBool([]byte{admits}, !a.Secret.IsZero())
	if !a.Secret.IsZero() {
		b = append(b, a.Secret[:]...)
	}
	return a.Told.Append(b)
}

// Append appends the canonical bytes.
func (a Answer) Append(b []byte) []byte { return append(append(b, a.body()...), a.Proof[:]...) }

// ParseAnswer reads the canonical bytes.
func ParseAnswer(b []byte) (a Answer, err error) {
	r := wire.NewReader(b)
	switch kind := r.U8(); kind {
	case refuses:
		if a.Refusal = string(r.Bytes(maxRefusal)); a.Refusal == "" {
			r.Fail("a refusal without a reason")
		}
	case admits:
		if r.Bool() {
			copy(a.Secret[:], r.Take(len(a.Secret)))
		}
		a.Told = readTold(r)
	default:
		r.Fail("kind %d of answer", kind)
	}
	copy(a.Proof[:], r.Take(len(a.Proof)))
	return a, r.Done()
}

// prove returns the proof of a message that from gives to to.
func prove(key [32]byte, from, to slot.PeerID, said []byte) [32]byte {
	b := wire.AppendBytes(wire.AppendBytes([]byte("p2pdiloco/admission/proof/1"), from), to)
	return mac(key[:], wire.AppendBytes(b, said))
}

func proven(key [32]byte, from, to slot.PeerID, said []byte, proof [32]byte) bool {
	want := prove(key, from, to, said)
	return hmac.Equal(want[:], proof[:])
}

// RefusedError is the answer of a peer that does not admit this one.
type RefusedError struct {
	Reason string
	Proven bool // the peer has proved that it is a member of the run
}

func (e *RefusedError) Error() string { return fmt.Sprintf("not admitted: %.*q", maxRefusal, e.Reason) }

// ErrShared is wrapped if a secret was proposed before, when more peers were allowed to have it
// than now. Another secret is needed then.
var ErrShared = errors.New("the admission secret may be known to a peer from which it is to be kept: another one " +
	"is needed")

// MaxKeyAnswer bounds the answer to a request for a secret, in bytes.
const MaxKeyAnswer = 1 << 10

// The first byte of an answer to a request for a secret says what the answer is.
const (
	keyGiven   = 1
	keyRefused = 2
)

// AppendKeyAnswer appends a secret that a member asked for by its commitment, or why it does not
// get it.
func AppendKeyAnswer(b []byte, s Secret, refusal error) []byte {
	if refusal != nil {
		reason := refusal.Error()
		return wire.AppendBytes(append(b, keyRefused), reason[:min(len(reason), maxRefusal)])
	}
	return append(append(b, keyGiven), s[:]...)
}

// ParseKeyAnswer returns the secret of a commitment from such an answer. It refuses another secret.
func ParseKeyAnswer(b []byte, run, key slot.Root) (s Secret, err error) {
	r := wire.NewReader(b)
	var reason string
	switch kind := r.U8(); kind {
	case keyGiven:
		copy(s[:], r.Take(len(s)))
	case keyRefused:
		reason = string(r.Bytes(maxRefusal))
	default:
		r.Fail("kind %d of answer", kind)
	}
	switch err := r.Done(); {
	case err != nil:
		return Secret{}, err
	case s.IsZero():
		return Secret{}, fmt.Errorf("the secret is not given: %.*q", maxRefusal, reason)
	}
	if c := s.Commitment(run); !hmac.Equal(c[:], key[:]) {
		return Secret{}, fmt.Errorf("the secret given is another one than was asked for")
	}
	return s, nil
}
