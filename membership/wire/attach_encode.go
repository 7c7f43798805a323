package wire

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Least sizes of attachments in bytes, which bound how many are made room for.
const (
	leaveSize     = 4 + 8 + 8 + 4
	retiredSize   = 4 + 8 + 8 + 4
	statementSize = 4 + 8 + 4 + 4 + 4
	evidenceSize  = 1 + 4 + 8 + 4*4
)

// Append appends the canonical encoding.
func (a Attachments) Append(b []byte) []byte {
	b = canonical.AppendU32(b, uint32(len(a.Leaves)))
	for _, l := range a.Leaves {
		b = canonical.AppendU64(canonical.AppendU64(appendPeer(b, l.Peer), uint64(l.Incarnation)), l.Since)
		b = canonical.AppendBytes(b, l.Sig)
	}
	b = canonical.AppendU32(b, uint32(len(a.Retired)))
	for _, x := range a.Retired {
		b = canonical.AppendU64(canonical.AppendU64(appendPeer(b, x.Peer), uint64(x.Incarnation)), uint64(x.Old))
		b = canonical.AppendBytes(b, x.Sig)
	}
	b = canonical.AppendU32(b, uint32(len(a.Statements)))
	for _, s := range a.Statements {
		b = canonical.AppendU64(appendPeer(b, s.Peer), uint64(s.Incarnation))
		b = canonical.AppendBytes(canonical.AppendBytes(canonical.AppendBytes(b, s.Unheard), s.Mute), s.Sig)
	}
	b = canonical.AppendU32(b, uint32(len(a.Evidence)))
	for _, e := range a.Evidence {
		b = e.Append(b)
	}
	return b
}

// ReadAttachments reads what Append wrote. It checks only the form.
func ReadAttachments(r *canonical.Reader) (a Attachments) {
	order := peerOrder{r: r}
	for range order.count(slot.MaxMembers, leaveSize) {
		a.Leaves = append(a.Leaves, SignedLeave{order.peer(), readIncarnation(r), Leave{r.U64()}, readSig(r)})
	}
	for range order.count(slot.MaxMembers, retiredSize) {
		a.Retired = append(a.Retired, SignedRetired{order.peer(), readIncarnation(r), readRetired(r), readSig(r)})
	}
	for range order.count(slot.MaxMembers, statementSize) {
		a.Statements = append(a.Statements,
			SignedStatement{order.peer(), readIncarnation(r), readSet(r), readSet(r), readSig(r)})
	}
	for range order.count(MaxEvidence, evidenceSize) {
		e := readEvidence(r)
		order.next(e.Peer)
		a.Evidence = append(a.Evidence, e)
	}
	return a
}

// peerOrder reads lists that are sorted by peer, with one entry for each.
type peerOrder struct {
	r     *canonical.Reader
	last  slot.PeerID
	begun bool
}

func (o *peerOrder) count(most, size int) int {
	o.begun = false
	return o.r.Count(most, size)
}

func (o *peerOrder) peer() slot.PeerID {
	p := readPeer(o.r)
	o.next(p)
	return p
}

func (o *peerOrder) next(p slot.PeerID) {
	if o.begun && o.last >= p {
		o.r.Fail("attachments are not in the order of their peers, one each")
	}
	o.last, o.begun = p, true
}

func readIncarnation(r *canonical.Reader) slot.Incarnation { return slot.Incarnation(r.U64()) }

func readSig(r *canonical.Reader) []byte { return append([]byte{}, r.Bytes(slot.MaxSigLen)...) }
