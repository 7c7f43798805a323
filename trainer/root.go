package trainer

import (
	"encoding/hex"
	"errors"
)

// Root is a BLAKE3-256 hash: of a state, an outcome, a record or a run spec.
type Root [32]byte

// String is the hash in hex.
func (r Root) String() string { return hex.EncodeToString(r[:]) }

// Short is the first eight hex digits.
func (r Root) Short() string { return hex.EncodeToString(r[:4]) }

// IsZero tells whether the root was never set.
func (r Root) IsZero() bool { return r == Root{} }

// MarshalText and UnmarshalText make roots hex strings in JSON and TOML.
func (r Root) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads 64 hex digits.
func (r *Root) UnmarshalText(b []byte) error {
	v, err := hex.DecodeString(string(b))
	if err != nil || len(v) != len(r) {
		return errors.New("a hash has 64 hex digits")
	}
	copy(r[:], v)
	return nil
}
