package proof

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Secret is known to all peers of a private run and to nobody else. The zero value stands for no
// secret.
type Secret [32]byte

// NewSecret makes a secret from a source of randomness.
func NewSecret(random io.Reader) (s Secret, err error) {
	_, err = io.ReadFull(random, s[:])
	return s, err
}

// ParseSecret reads what Text writes, with white space around it.
func ParseSecret(text string) (s Secret, err error) {
	b, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != len(s) || Secret(b).IsZero() {
		return Secret{}, errors.New("no admission secret: it is 64 hex digits, as the founder's peer has written them")
	}
	return Secret(b), nil
}

// IsZero says that there is no secret.
func (s Secret) IsZero() bool { return s == Secret{} }

// Text formats the secret for a file.
func (s Secret) Text() string { return hex.EncodeToString(s[:]) + "\n" }

// String hides the secret, so that it does not get into logs.
func (s Secret) String() string { return "secret" }

// Format hides the secret from all verbs.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// key derives a key for one purpose in the run of a name.
func (s Secret) key(purpose, run string) [32]byte {
	b := wire.AppendBytes(wire.AppendBytes([]byte("p2pdiloco/admission/1"), purpose), run)
	return mac(s[:], b)
}

func mac(key, b []byte) (sum [32]byte) {
	h := hmac.New(sha256.New, key)
	h.Write(b)
	return [32]byte(h.Sum(nil))
}

// Rendezvous returns what the run's peers announce themselves under instead of its name.
func (s Secret) Rendezvous(run string) (r [ticket.RendezvousSize]byte) {
	k := s.key("rendezvous", run)
	copy(r[:], k[:])
	return r
}

// Commitment names the secret in the run of an ID, and does not give it away.
func (s Secret) Commitment(run slot.Root) slot.Root { return s.key("commitment", string(run[:])) }

// Tag returns the tag of a token with an ID, an expiry and a number of uses.
func (s Secret) Tag(run string, id [ticket.IDSize]byte, expires uint64, uses uint32) [ticket.TagSize]byte {
	k := s.key("token", run)
	return mac(k[:], wire.AppendU32(wire.AppendU64(id[:], expires), uses))
}

// Made says whether this is the secret that a private run's ticket was made with.
func (s Secret) Made(t *ticket.Ticket) bool {
	k := t.Token
	tag := s.Tag(t.Run, k.ID, uint64(t.Expires.Unix()), k.Uses)
	return hmac.Equal(tag[:], k.Tag[:])
}
