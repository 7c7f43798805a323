package wire

import (
	"bytes"
	"crypto/ed25519"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Link is the head of a record that changes who decides the next ones, with its certificate.
//
// Links stay for ever, and most of one would repeat the one before. So a link is encoded as the
// difference to that: who joined and left, whose seat and credit changed, and as a bitmap over the
// voters who signed. Whoever reads it makes the head of both, whose hash the signatures must fit.
type Link struct {
	Head        slot.Head
	Certificate slot.Certificate // proves the head, by electors of the link before
}

// summedLink is set in the kind of a link whose record has a summary.
const summedLink = 0x40

// leastLink is the bytes of the shortest link: few bytes cannot unpack to millions of them.
const leastLink = 8 + 1 + 32 + 8 + 32 + 2*leastDifference + 8 + 8 + 32 + 4 + 4

// Append appends the canonical encoding of a link that comes after another one, of which before is
// the record: R_0 for the first link. Signatures of others than the voters prove nothing and are
// left out.
func (l Link) Append(b []byte, before slot.Record) []byte {
	r := l.Head.Record
	kind := uint8(r.Kind)
	if !r.Summary.IsZero() {
		kind |= summedLink
	}
	b = AppendRoot(canonical.AppendU8(canonical.AppendU64(b, r.Height), kind), r.Prev)
	b = AppendRoot(canonical.AppendU64(b, r.Slot), r.StateRoot)
	if !r.Summary.IsZero() {
		b = AppendRoot(b, r.Summary)
	}
	b = differenceOf(before.Members, r.Members).append(b)
	b = differenceOf(before.Absent, r.Absent).append(b)
	b = appendEvicted(b, before.Evicted, r.Evicted)
	b = AppendRoot(canonical.AppendU64(b, r.Work), l.Head.Body)
	return l.appendSigners(canonical.AppendU32(b, l.Certificate.Ballot), before)
}

// voters are those whose signatures prove the link's record.
func (l Link) voters(before slot.Record) []slot.Member {
	if l.Head.Record.Kind == slot.Fork {
		return l.Head.Record.Electors()
	}
	return before.Electors()
}

func (l Link) appendSigners(b []byte, before slot.Record) []byte {
	voters := l.voters(before)
	signers := slot.NewBitmap(len(voters))
	signatures := make([]byte, 0, len(l.Certificate.Signatures)*(1+ed25519.SignatureSize))
	for _, s := range l.Certificate.Signatures {
		if i := slot.Find(voters, s.Peer); i >= 0 {
			signers.Set(i)
			signatures = append(canonical.AppendU8(signatures, uint8(len(s.Sig))), s.Sig...)
		}
	}
	return append(canonical.AppendBytes(b, signers), signatures...)
}

// ParseLink reads what Append wrote, after a link with this record. The certificate names the hash
// of the head that the difference leads to. The signatures are not copied. Errors wrap
// canonical.ErrMalformed.
func ParseLink(b []byte, before slot.Record) (Link, error) {
	r := canonical.NewReader(b)
	l := readLink(r, before)
	if err := r.Done(); err != nil {
		return Link{}, err
	}
	if !bytes.Equal(l.Append(make([]byte, 0, len(b)), before), b) {
		r.Fail("a link that has a shorter form, or another order")
		return Link{}, r.Err()
	}
	l.Certificate.Hash = l.Head.Hash()
	return l, nil
}

func readLink(r *canonical.Reader, before slot.Record) Link {
	c := slot.Record{Run: before.Run, Height: r.U64()}
	kind := r.U8()
	c.Kind = slot.Kind(kind &^ summedLink)
	if c.Kind < slot.Fork || c.Kind > slot.Access {
		r.Fail("a link of kind %d", c.Kind)
	}
	c.Prev, c.Slot, c.StateRoot = ReadRoot(r), r.U64(), ReadRoot(r)
	if kind&summedLink != 0 {
		c.Summary = ReadRoot(r)
	}
	c.Members = readDifference(r).apply(r, before.Members)
	c.Absent = readDifference(r).apply(r, before.Absent)
	for _, m := range c.Absent {
		if m.Elects() {
			r.Fail("an absent member with a seat")
		}
	}
	c.Evicted = readEvicted(r, before.Evicted)
	c.Work = r.U64()
	l := Link{Head: slot.Head{Record: c, Body: ReadRoot(r)}}
	l.Certificate.Ref = slot.Ref{Height: c.Height, Prev: c.Prev, Ballot: r.U32()}
	l.Certificate.Signatures = readSigners(r, l.voters(before))
	return l
}

func readSigners(r *canonical.Reader, voters []slot.Member) (signatures []slot.Signature) {
	signers := slot.Bitmap(r.Bytes(slot.MaxMembers / 8))
	if r.Err() != nil || !signers.Fits(len(voters)) {
		r.Fail("%d bytes say which of %d voters signed", len(signers), len(voters))
		return nil
	}
	for i, m := range voters {
		if signers.Has(i) {
			signatures = append(signatures, slot.Signature{Peer: m.Peer, Sig: r.Take(int(r.U8()))})
		}
	}
	return signatures
}
