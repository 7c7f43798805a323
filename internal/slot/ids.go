package slot

import (
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Caps on what is read from the network or from disk. They bound memory, not policy.
const (
	// MinPeerIDLen is the length in bytes of the shortest kind of peer ID in use. Messages do not
	// enforce it.
	MinPeerIDLen = 34
	MaxPeerIDLen = 64      // bytes of a peer ID
	MaxMembers   = 1024    // members of a run
	MaxSegments  = 4096    // segments of one outcome
	MaxSigLen    = 128     // bytes of a signature
	MaxMessage   = 1 << 20 // bytes of a sealed ledger message
)

// PeerID is a libp2p peer ID in its binary form.
type PeerID = trainer.PeerID

// ParsePeerID reads the printed form of a peer ID.
func ParsePeerID(s string) (PeerID, error) { return trainer.ParsePeerID(s) }

// Incarnation is a random number that is made together with a vote log. A peer that loses the log
// comes back as another member (HOLES H6).
type Incarnation uint64

// Root is a BLAKE3-256 hash.
type Root = trainer.Root

// Hash is the BLAKE3-256 of b.
func Hash(b []byte) Root { return wire.Sum256(b) }

func appendPeer(b []byte, p PeerID) []byte { return wire.AppendBytes(b, p) }
func readPeer(r *wire.Reader) PeerID       { return PeerID(r.Bytes(MaxPeerIDLen)) }
func appendRoot(b []byte, v Root) []byte   { return append(b, v[:]...) }
func readRoot(r *wire.Reader) (v Root)     { copy(v[:], r.Take(len(v))); return v }

// Range is a half-open range [Begin, End) of elements of the flat parameter vector.
type Range struct{ Begin, End uint64 }

// Len is the number of elements.
func (r Range) Len() uint64 { return r.End - r.Begin }

func appendRange(b []byte, v Range) []byte { return wire.AppendU64(wire.AppendU64(b, v.Begin), v.End) }
func readRange(r *wire.Reader) Range {
	v := Range{r.U64(), r.U64()}
	if v.End < v.Begin {
		r.Fail("range ends before it begins")
	}
	return v
}

// Bitmap is a set of indices into a sorted list. Index i is bit i%8 of byte i/8. Its canonical
// length is the least that holds the list's indices.
type Bitmap []byte

// NewBitmap makes an empty set for n indices.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+7)/8) }

// Fits tells whether the set has the canonical form of one over n indices: the right length, and
// nothing at n or above.
func (m Bitmap) Fits(n int) bool {
	return len(m) == (n+7)/8 && (n%8 == 0 || m[len(m)-1]>>(n%8) == 0)
}

// Has tells whether i is in the set.
func (m Bitmap) Has(i int) bool { return i/8 < len(m) && m[i/8]>>(i%8)&1 == 1 }

// Set adds i, which must be below the n it was made for.
func (m Bitmap) Set(i int) { m[i/8] |= 1 << (i % 8) }

// Count is the number of indices in the set.
func (m Bitmap) Count() (n int) {
	for _, b := range m {
		for ; b != 0; b &= b - 1 {
			n++
		}
	}
	return n
}
