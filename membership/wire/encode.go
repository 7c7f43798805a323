package wire

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The canonical encodings of the ledger's messages: what is signed, sent and hashed. One value has
// one encoding, so Append(ParseBody(b)) == b for every b that parses. Every type below has its own
// Append, also where an embedded type's would be promoted: a field added later must not fall out of
// the signature unseen.

// Append implements Body.
func (m Offer) Append(b []byte) []byte { return m.Offer.Append(b) }

// Append implements Body.
func (m Plan) Append(b []byte) []byte { return appendProofs(m.Plan.Append(b), m.Proofs) }

// Append implements Body.
func (m Segment) Append(b []byte) []byte {
	b = AppendRoot(AppendRoot(m.Ref.Append(b), m.Group), m.Inputs)
	return m.Segment.Append(b)
}

// Append implements Body.
func (m Lost) Append(b []byte) []byte {
	b = AppendRoot(m.Ref.Append(b), m.Group)
	return AppendRoot(canonical.AppendU8(appendPeer(b, m.Peer), uint8(m.Reason)), m.Round)
}

// Append implements Body.
func (m Draft) Append(b []byte) []byte { return m.Vote.Append(b) }

// Append implements Body.
func (m Have) Append(b []byte) []byte { return m.Vote.Append(b) }

// Append implements Body.
func (m Propose) Append(b []byte) []byte { return m.Vote.Append(b) }

// Append implements Body.
func (m ForkDraft) Append(b []byte) []byte { return m.Record.Append(canonical.AppendU32(b, m.Ballot)) }

// Append implements Body.
func (m Vote) Append(b []byte) []byte { return m.Vote.Append(b) }

// Append implements Body.
func (m ForkVote) Append(b []byte) []byte { return m.Vote.Append(b) }

// Append implements Body.
func (m Commit) Append(b []byte) []byte { return m.Certificate.Append(b) }

// Size is the bytes of the record and its certificate.
func (m Commit) Size() int { return len(m.Certificate.Append(m.Record.Append(nil))) }

// Append implements Body.
func (m Retry) Append(b []byte) []byte { return m.Ref.Append(b) }

// Append implements Body.
func (m Promise) Append(b []byte) []byte { return appendLock(m.Ref.Append(b), m.Lock) }

// Append implements Body.
func (m Beat) Append(b []byte) []byte {
	b = canonical.AppendU32(m.Ref.Append(b), m.Revision)
	b = canonical.AppendU64(canonical.AppendU32(b, m.Offers), m.Bytes)
	return canonical.AppendU32(canonical.AppendU32(canonical.AppendU32(b, m.Haves), m.Votes), m.Segments)
}

// Append implements Body.
func (m Alive) Append(b []byte) []byte {
	b = canonical.AppendU64(AppendRoot(b, m.Branch), m.Height)
	b = canonical.AppendU64(AppendRoot(b, m.Tip), m.Work)
	b = canonical.AppendBool(canonical.AppendU64(b, m.Applied), m.Synced)
	b = canonical.AppendBool(canonical.AppendU64(b, m.Slot), m.Contributes)
	b = canonical.AppendU32(canonical.AppendU32(b, m.Steps), uint32(len(m.Reaches)))
	for i, p := range m.Reaches {
		b = canonical.AppendU8(appendPeer(b, p), uint8(m.Links[i]))
	}
	b = canonical.AppendU32(canonical.AppendU8(b, uint8(m.Uplink)), uint32(len(m.Apart)))
	for _, p := range m.Apart {
		b = appendPeer(b, p)
	}
	return canonical.AppendShort(b, m.Claims)
}

// Append implements Body.
func (m Join) Append(b []byte) []byte { return canonical.AppendBool(b, m.Contributes) }

// Append implements Body.
func (m Leave) Append(b []byte) []byte { return canonical.AppendU64(b, m.Since) }

// Append implements Body.
func (m Need) Append(b []byte) []byte { return canonical.AppendU64(b, m.From) }

// Append implements Body.
func (m Motion) Append(b []byte) []byte { return m.Motion.Append(b) }

// Append implements Body.
func (e Evidence) Append(b []byte) []byte {
	b = canonical.AppendU64(appendPeer(canonical.AppendU8(b, uint8(e.Kind)), e.Peer), uint64(e.Incarnation))
	for _, s := range []SignedBody{e.First, e.Second} {
		b = canonical.AppendBytes(canonical.AppendBytes(b, s.Body), s.Sig)
	}
	return b
}

func readEvidence(r *canonical.Reader) Evidence {
	e := Evidence{Kind: slot.MessageType(r.U8()), Peer: readPeer(r), Incarnation: slot.Incarnation(r.U64())}
	e.First = readSignedBody(r, maxEvidence)
	if e.Proven() {
		e.Second = readSignedBody(r, MaxProof)
	} else {
		e.Second = readSignedBody(r, maxEvidence)
	}
	return e
}

func readSignedBody(r *canonical.Reader, most int) SignedBody {
	return SignedBody{append([]byte{}, r.Bytes(most)...), append([]byte{}, r.Bytes(slot.MaxSigLen)...)}
}

// Size returns the number of bytes of a body's encoding, with what it carries beside its signed
// bytes.
func Size(body Body) int {
	b := body.Append(nil)
	if c, ok := body.(carrier); ok {
		b = c.appendCarried(b)
	}
	return len(b)
}

// maxEvidence bounds a body in evidence, in bytes: a vote or a statement of many contributors.
const maxEvidence = 4 << 10

// ParseBody reads what a body's Append wrote. It checks only the form. The machine decides whether
// a message makes sense. Its errors wrap canonical.ErrMalformed. The result shares no memory with
// b.
func ParseBody(t slot.MessageType, b []byte) (Body, error) {
	r := canonical.NewReader(b)
	body := readBody(t, r)
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("%s message of %d bytes: %w", TypeName(t), len(b), err)
	}
	return body, nil
}

func readBody(t slot.MessageType, r *canonical.Reader) Body {
	switch t {
	case slot.TypeOffer:
		return Offer{slot.ReadOffer(r)}
	case slot.TypePlan:
		return Plan{Plan: slot.ReadPlan(r), Proofs: readProofs(r)}
	case slot.TypeAccuse:
		return readAccuse(r)
	case slot.TypeAsk:
		return Ask{ReadRoot(r)}
	case slot.TypeSegment:
		return Segment{slot.ReadRef(r), ReadRoot(r), ReadRoot(r), slot.ReadSegment(r)}
	case slot.TypeLost:
		return readLost(r)
	case slot.TypeDraft:
		return Draft{Vote: slot.ReadVote(r)}
	case slot.TypeHave:
		return Have{slot.ReadVote(r)}
	case slot.TypePropose:
		return Propose{Vote: slot.ReadVote(r)}
	case slot.TypeForkDraft:
		return ForkDraft{Ballot: r.U32(), Record: slot.ReadRecord(r)}
	case slot.TypeVote:
		return Vote{slot.ReadVote(r)}
	case slot.TypeFork:
		return ForkVote{slot.ReadVote(r)}
	case slot.TypeCommit:
		return Commit{Certificate: slot.ReadCertificate(r)}
	case slot.TypeRetry:
		return Retry{slot.ReadRef(r)}
	case slot.TypePromise:
		return Promise{Ref: slot.ReadRef(r), Lock: readLock(r)}
	case slot.TypeBeat:
		return Beat{
			Ref: slot.ReadRef(r), Revision: r.U32(), Offers: r.U32(), Bytes: r.U64(),
			Haves: r.U32(), Votes: r.U32(), Segments: r.U32(),
		}
	case slot.TypeAlive:
		return readAlive(r)
	case slot.TypeJoin:
		return Join{Contributes: r.Bool()}
	case slot.TypeLeave:
		return Leave{Since: r.U64()}
	case slot.TypeEvidence:
		return readEvidence(r)
	case slot.TypeMotion:
		return Motion{slot.ReadMotion(r)}
	case slot.TypeNeed:
		return Need{From: r.U64()}
	case slot.TypeStatement:
		return readStatement(r)
	case slot.TypeRetired:
		return readRetired(r)
	}
	r.Fail("type %d is unknown: a newer version sent it, or these are no ledger messages", t)
	return nil
}

func readAlive(r *canonical.Reader) Alive {
	m := Alive{
		Branch: ReadRoot(r), Height: r.U64(), Tip: ReadRoot(r), Work: r.U64(), Applied: r.U64(), Synced: r.Bool(),
		Slot: r.U64(), Contributes: r.Bool(), Steps: r.U32(),
	}
	for range r.Count(slot.MaxMembers, 4+1) {
		m.Reaches, m.Links = append(m.Reaches, readPeer(r)), append(m.Links, slot.Link(r.U8()))
	}
	m.Uplink = slot.Link(r.U8())
	for range r.Count(slot.MaxMembers, 4) {
		m.Apart = append(m.Apart, readPeer(r))
	}
	m.Claims = r.Short(MaxClaims)
	return m
}

func readLost(r *canonical.Reader) Lost {
	return Lost{
		Ref: slot.ReadRef(r), Group: ReadRoot(r), Peer: readPeer(r), Reason: LostReason(r.U8()),
		Round: ReadRoot(r),
	}
}

// TypeName names a message type in logs and errors.
func TypeName(t slot.MessageType) string {
	names := [...]string{
		slot.TypeOffer: "OFFER", slot.TypePlan: "PLAN", slot.TypeSegment: "SEGMENT", slot.TypeLost: "LOST",
		slot.TypeDraft: "DRAFT",
		slot.TypeHave:  "HAVE", slot.TypePropose: "PROPOSE", slot.TypeVote: "VOTE", slot.TypeCommit: "COMMIT",
		slot.TypeRetry:   "RETRY",
		slot.TypePromise: "PROMISE", slot.TypeBeat: "BEAT", slot.TypeAlive: "ALIVE", slot.TypeJoin: "JOIN",
		slot.TypeLeave: "LEAVE",
		slot.TypeNeed:  "NEED", slot.TypeFork: "FORK", slot.TypeEvidence: "EVIDENCE", slot.TypeMotion: "ORDER",
		slot.TypeStatement: "STATEMENT", slot.TypeRetired: "RETIRED",
		slot.TypeForkDraft: "FORKDRAFT", slot.TypeAccuse: "ACCUSE", slot.TypeAsk: "ASK",
	}
	if int(t) < len(names) && names[t] != "" {
		return names[t]
	}
	return fmt.Sprintf("type %d", t)
}

func appendPeer(b []byte, p slot.PeerID) []byte { return canonical.AppendBytes(b, p) }
func readPeer(r *canonical.Reader) slot.PeerID  { return slot.PeerID(r.Bytes(slot.MaxPeerIDLen)) }

// AppendRoot appends the 32 bytes of a root.
func AppendRoot(b []byte, v slot.Root) []byte { return append(b, v[:]...) }

// ReadRoot reads what AppendRoot wrote.
func ReadRoot(r *canonical.Reader) (v slot.Root) { copy(v[:], r.Take(len(v))); return v }
