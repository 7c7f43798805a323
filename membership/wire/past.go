package wire

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Past is what a peer keeps in the place of old records (package chain).
type Past struct {
	Floor   uint64    // no record up to this height is kept whole
	Height  uint64    // Summary is of the records up to it
	Links   [][]byte  // the links of the heights up to Height, each encoded after the one before
	Summary []byte    // what those records amount to
	Pin     slot.Root // of this peer's, if one of those records has it; it is not sent
}

// PastPartSize is the most bytes of a PastPart's data.
const PastPartSize = 64 << 10

// MaxPast is the most bytes that a past and its records may have, packed or not.
const MaxPast = 64 << 20

// PackPast makes one string of bytes of a past and the records that a newcomer needs with it.
func PackPast(p Past, commits []Commit) []byte {
	b := canonical.AppendU32(p.Append(nil), uint32(len(commits)))
	for _, c := range commits {
		b = appendCommit(b, c)
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic("wire: " + err.Error()) // the options are constants
	}
	return enc.EncodeAll(b, nil)
}

func appendCommit(b []byte, c Commit) []byte { return c.Certificate.Append(c.Record.Append(b)) }

// PastSize is how many bytes PackPast packs, which have to be MaxPast at most.
func PastSize(p Past, commits []Commit) (n int) {
	links := p.Links
	p.Links = nil
	n = len(p.Append(nil)) + 4 // with the number of records
	for _, l := range links {
		n += 4 + len(l) // behind its length
	}
	var b []byte
	for _, c := range commits {
		b = appendCommit(b[:0], c)
		n += len(b)
	}
	return n
}

// UnpackPast undoes PackPast. Its errors wrap canonical.ErrMalformed.
func UnpackPast(b []byte) (p Past, commits []Commit, err error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxPast))
	if err != nil {
		panic("wire: " + err.Error()) // the options are constants
	}
	defer dec.Close()
	plain, err := dec.DecodeAll(b, nil)
	if err != nil {
		return p, nil, fmt.Errorf("%w: %w", canonical.ErrMalformed, err)
	}
	r := canonical.NewReader(plain)
	p = readPast(r, leastLink)
	for range r.Count(maxLinks, minRecord) {
		commits = append(commits, Commit{Record: slot.ReadRecord(r), Certificate: slot.ReadCertificate(r)})
	}
	return p, commits, r.Done()
}

// Bounds of a past that is read.
const (
	maxLinks = 1 << 22
	maxPart  = 1 << 28 // bytes of a link, or of a summary
	// bytes of the shortest record with its certificate: few bytes cannot unpack to millions
	minRecord = 205
)

// Append appends the canonical encoding of what is sent of a past.
func (p Past) Append(b []byte) []byte {
	b = canonical.AppendU32(canonical.AppendU64(canonical.AppendU64(b, p.Floor), p.Height), uint32(len(p.Links)))
	for _, l := range p.Links {
		b = canonical.AppendBytes(b, l)
	}
	return canonical.AppendBytes(b, p.Summary)
}

// ReadPast reads what Append wrote, from the own disk.
func ReadPast(r *canonical.Reader) Past { return readPast(r, 0) }

func readPast(r *canonical.Reader, leastLink int) Past {
	p := Past{Floor: r.U64(), Height: r.U64()}
	for range r.Count(maxLinks, 4+leastLink) {
		p.Links = append(p.Links, append([]byte{}, r.Bytes(maxPart)...))
	}
	p.Summary = append([]byte{}, r.Bytes(maxPart)...)
	return p
}

func (p Past) appendKept(b []byte) []byte { return AppendRoot(p.Append(b), p.Pin) }

func readKeptPast(r *canonical.Reader) Past {
	p := ReadPast(r)
	p.Pin = ReadRoot(r)
	return p
}
