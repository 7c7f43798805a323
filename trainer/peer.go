package trainer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// PeerID is a libp2p peer ID in its binary form. It embeds the Ed25519 public key, so a signature
// needs nothing else to be checked.
type PeerID string

// String is the ID as libp2p prints it (base58).
func (p PeerID) String() string { return encodeBase58(p) }

// Short is the tail of the printed ID, for logs and tables.
func (p PeerID) Short() string {
	s := p.String()
	return s[max(0, len(s)-6):]
}

// maxPrinted bounds the characters of a printed ID: base58 takes 1.37 of them a byte, and a peer ID
// has at most 64 bytes.
const maxPrinted = 128

// ParsePeerID reads the printed form.
func ParsePeerID(s string) (PeerID, error) {
	if s == "" || len(s) > maxPrinted {
		return "", fmt.Errorf("a peer ID of %d characters: 1 to %d are allowed", len(s), maxPrinted)
	}
	return decodeBase58(s)
}

// MarshalText prints a peer ID in JSON as libp2p does.
func (p PeerID) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the printed form.
func (p *PeerID) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePeerID(string(b))
	return err
}

const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// encodeBase58 prints p in base 58, and each leading zero byte as the digit 1.
func encodeBase58(p PeerID) string {
	digits := rebase([]byte(p), 256, 58)
	for i := range digits {
		digits[i] = base58[digits[i]]
	}
	return string(digits)
}

func decodeBase58(s string) (PeerID, error) {
	digits := make([]byte, len(s))
	for i := range s {
		d := strings.IndexByte(base58, s[i])
		if d < 0 {
			return "", fmt.Errorf("a peer ID with %q in it, which is no base58 digit", s[i])
		}
		digits[i] = byte(d)
	}
	return PeerID(rebase(digits, 58, 256)), nil
}

// rebase converts a big-endian number from one base to another, and keeps the number of its leading
// zeros.
func rebase(digits []byte, from, to uint64) []byte {
	limb, places := to, 1 // it computes with limbs of as many places as 64 bits have room for
	for limb < 1<<63/from/to {
		limb, places = limb*to, places+1
	}
	zeros := len(digits) - len(bytes.TrimLeft(digits, "\x00"))
	var limbs []uint64 // little-endian
	for _, d := range digits[zeros:] {
		carry := uint64(d)
		for i := range limbs {
			carry += limbs[i] * from
			limbs[i], carry = carry%limb, carry/limb
		}
		if carry > 0 {
			limbs = append(limbs, carry)
		}
	}
	out := make([]byte, 0, len(limbs)*places+zeros)
	for _, l := range limbs {
		for range places {
			out, l = append(out, byte(l%to)), l/to
		}
	}
	out = append(bytes.TrimRight(out, "\x00"), make([]byte, zeros)...)
	slices.Reverse(out)
	return out
}
