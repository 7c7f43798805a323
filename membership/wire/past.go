package wire

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Past is what a peer keeps in the place of old records (package chain).
type Past struct {
	Floor   uint64    // no record up to this height is kept whole
	Height  uint64    // Summary is of the records up to it
	Links   [][]byte  // the encoded links of the heights up to Height, in order
	Summary []byte    // what those records amount to
	Pin     slot.Root // of this peer's, if one of those records has it; it is not sent
}

// Link is the head of a record that changes who decides the next ones, with its certificate.
type Link struct {
	Head        slot.Head
	Certificate slot.Certificate
}

// Append appends the canonical encoding.
func (l Link) Append(b []byte) []byte { return l.Certificate.Append(l.Head.Append(b)) }

// ParseLink reads what Append wrote.
func ParseLink(b []byte) (Link, error) {
	r := canonical.NewReader(b)
	l := Link{slot.ReadHead(r), slot.ReadCertificate(r)}
	return l, r.Done()
}
