package trainer

import (
	"fmt"
	"math/big"
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

// bigDigits are those that package math/big has for them.
const bigDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"

// spell writes a number in other digits.
func spell(number, from, to string) string {
	return strings.Map(func(digit rune) rune { return rune(to[strings.IndexRune(from, digit)]) }, number)
}

// encodeBase58 prints p in base 58, and each leading zero byte as the digit 1.
func encodeBase58(p PeerID) string {
	number := strings.TrimLeft(string(p), "\x00")
	digits := spell(new(big.Int).SetBytes([]byte(number)).Text(58), bigDigits, base58)
	return strings.Repeat("1", len(p)-len(number)) + strings.TrimLeft(digits, "1")
}

func decodeBase58(s string) (PeerID, error) {
	if rest := strings.Trim(s, base58); rest != "" {
		return "", fmt.Errorf("a peer ID with %q in it, which is no base58 digit", rest[0])
	}
	digits := strings.TrimLeft(s, "1")
	number, _ := new(big.Int).SetString("0"+spell(digits, base58, bigDigits), 58)
	return PeerID(strings.Repeat("\x00", len(s)-len(digits)) + string(number.Bytes())), nil
}
