package proof

import (
	"crypto/hmac"
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

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
