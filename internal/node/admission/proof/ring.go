package proof

import (
	"crypto/hmac"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
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
