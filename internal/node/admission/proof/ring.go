package proof

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Bounds on a Ring.
const (
	// MaxRingText bounds a file of secrets, in bytes.
	MaxRingText = 64 << 10
	maxOlder    = 256
	// maxNext is about as many as there can be members, each of which proposes one secret at a
	// time. No secret is dropped that may still be agreed on: a peer that has stated that it holds
	// one must keep it until then.
	maxNext = 1000
)

// Of the secrets held, a proof is tried with the current one, the newest of those that are not in
// force yet, and the newest older ones. More would let strangers cost this peer more time.
const (
	triedNext  = 8
	triedOlder = 16
)

// Ring is the secrets of one run that a peer holds. Methods that change it return another ring,
// which can be written before it is used.
type Ring struct {
	// the one in force, then older ones, newest first; the last is the one that the run was founded
	// with, as far as is known here
	line []Secret
	next []Secret // held, and not in force here, in the order in which they came
	// so many of next came before the one in force: they will hardly be proposed again
	stale int
}

var errNextFull = errors.New("too many admission secrets are held that never came into force")

// NewRing makes a ring of secrets in the order of a file: the one in force, then older ones, newest
// first.
func NewRing(line ...Secret) Ring { return Ring{line: line} }

// IsZero says that no secret is in force.
func (r Ring) IsZero() bool { return len(r.line) == 0 }

// Current returns the secret in force, zero if there is none.
func (r Ring) Current() Secret {
	if r.IsZero() {
		return Secret{}
	}
	return r.line[0]
}

// Line returns the secret in force and the older ones, newest first.
func (r Ring) Line() []Secret { return slices.Clone(r.line) }

// Next returns the secrets that are held and not in force.
func (r Ring) Next() []Secret { return slices.Clone(r.next) }

// InForce says whether the secret of a commitment is the one in force, or was.
func (r Ring) InForce(run, key slot.Root) bool {
	s, ok := r.Find(run, key)
	return ok && slices.Contains(r.line, s)
}

// Find returns the secret of a commitment. For the zero commitment it returns the secret that the
// run was founded with.
func (r Ring) Find(run, key slot.Root) (Secret, bool) {
	if key.IsZero() {
		if r.IsZero() {
			return Secret{}, false
		}
		return r.line[len(r.line)-1], true
	}
	for _, s := range slices.Concat(r.line, r.next) {
		if c := s.Commitment(run); hmac.Equal(c[:], key[:]) {
			return s, true
		}
	}
	return Secret{}, false
}

// With adds a secret that is not in force yet.
func (r Ring) With(s Secret) (Ring, error) {
	if slices.Contains(r.line, s) || slices.Contains(r.next, s) {
		return r, nil
	}
	r.next = slices.Clone(r.next)
	if len(r.next) >= maxNext {
		if r.stale == 0 {
			return r, errNextFull
		}
		r.next, r.stale = r.next[1:], r.stale-1
	}
	r.next = append(r.next, s)
	return r, nil
}

// Lead puts a secret in force that was not held. The peer that gave it has proved that it is in
// force; this peer does not know the records that say so yet.
func (r Ring) Lead(s Secret) Ring {
	if slices.Contains(r.line, s) {
		return r
	}
	r.line = slices.Insert(slices.Clone(r.line), 0, s)
	r.trim()
	r.stale = 0
	return r.Restore(r.next)
}

// trim drops an older secret if there are too many. It keeps the last one, which Find returns for
// the zero commitment.
func (r *Ring) trim() {
	if len(r.line) > 1+maxOlder {
		r.line = slices.Delete(r.line, maxOlder, maxOlder+1)
	}
}

// Restore adds the secrets of a file. The file has one too many if the process ended between two
// writes: the oldest, which was to make room.
func (r Ring) Restore(next []Secret) Ring {
	r.next = slices.DeleteFunc(slices.Clone(next), func(s Secret) bool { return slices.Contains(r.line, s) })
	r.next = r.next[max(0, len(r.next)-maxNext):]
	return r
}

// Enforce puts a held secret in force. If that is an older one, the secrets after it stay held: the
// run may go back to them, too.
func (r Ring) Enforce(s Secret) Ring {
	if i := slices.Index(r.line, s); i >= 0 {
		undone := slices.Clone(r.line[:min(i, maxNext-len(r.next))])
		slices.Reverse(undone)
		r.line, r.next = r.line[i:], slices.Concat(r.next, undone)
		return r
	}
	i := slices.Index(r.next, s)
	if i < 0 {
		return r
	}
	r.stale = i
	r.next = slices.Delete(slices.Clone(r.next), i, i+1)
	r.line = slices.Insert(slices.Clone(r.line), 0, s)
	r.trim()
	return r
}

// Join adds the secrets of another copy of the ring, if both belong to one run.
func (r Ring) Join(other Ring) (joined Ring, same bool) {
	switch i := slices.Index(other.line, r.Current()); {
	case r.IsZero(): // what may come into force is of this run, too
		return other.Restore(r.next), true
	case slices.Contains(r.line, other.Current()):
		return r, true
	case i < 0:
		return r, false
	case len(other.line)-i < len(r.line):
		r.line = slices.Concat(other.line[:i], r.line)
	default:
		r.line = other.line
	}
	r.line = slices.Clone(r.line[:min(len(r.line), 1+maxOlder)])
	r.next = slices.DeleteFunc(slices.Clone(r.next), func(s Secret) bool { return slices.Contains(r.line, s) })
	r.stale = 0
	return r, true
}

// tried returns the secrets that a proof is tried with; the first is the one in force.
func (r Ring) tried() []Secret {
	if r.IsZero() {
		return nil
	}
	newest := slices.Clone(r.next[max(0, len(r.next)-triedNext):])
	return slices.Concat(r.line[:1], newest, r.older())
}

func (r Ring) older() []Secret { return r.line[1:min(len(r.line), 1+triedOlder)] }

// asks returns the secrets that this peer asks with, one after the other, until one is accepted.
func (r Ring) asks() []Secret {
	if r.IsZero() {
		return nil
	}
	return slices.Concat(r.line[:1], r.older())
}

// Text formats secrets for a file.
func Text(secrets []Secret) string {
	var b strings.Builder
	for _, s := range secrets {
		b.WriteString(s.Text())
	}
	return b.String()
}

// ParseSecrets reads what Text writes, with white space around each.
func ParseSecrets(text string) (secrets []Secret, err error) {
	for i, line := range strings.Fields(text) {
		s, err := ParseSecret(line)
		if err != nil {
			return nil, fmt.Errorf("secret %d: %w", i+1, err)
		}
		if i >= MaxRingText/len(s.Text()) {
			return nil, fmt.Errorf("more than %d admission secrets", i)
		}
		if !slices.Contains(secrets, s) {
			secrets = append(secrets, s)
		}
	}
	return secrets, nil
}

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
