package slot

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// MessageType tells ledger messages apart, on the wire and under a signature. The enumeration only
// grows.
type MessageType uint8

// The ledger's messages. 23 was a message that is gone.
const (
	TypeOffer     MessageType = 1
	TypePlan      MessageType = 2
	TypeSegment   MessageType = 3
	TypeLost      MessageType = 4
	TypeDraft     MessageType = 5
	TypeHave      MessageType = 6
	TypePropose   MessageType = 7
	TypeVote      MessageType = 8
	TypeCommit    MessageType = 9
	TypeRetry     MessageType = 10
	TypePromise   MessageType = 11
	TypeBeat      MessageType = 12
	TypeAlive     MessageType = 13
	TypeJoin      MessageType = 14
	TypeLeave     MessageType = 15
	TypeNeed      MessageType = 16
	TypeFork      MessageType = 17
	TypeEvidence  MessageType = 18
	TypeMotion    MessageType = 19
	TypeForkDraft MessageType = 20
	TypeStatement MessageType = 21
	TypeRetired   MessageType = 22
	TypeAccuse    MessageType = 24
	TypeAsk       MessageType = 25
)

// SignedBytes is what a ledger signature covers: domain, type, run, signer and body.
func SignedBytes(t MessageType, run Root, from PeerID, inc Incarnation, body []byte) []byte {
	b := make([]byte, 0, 96+len(body))
	b = append(b, "p2pdiloco/ledger/3-dev"...)
	b = wire.AppendU8(b, uint8(t))
	b = appendRoot(b, run)
	b = appendPeer(b, from)
	b = wire.AppendU64(b, uint64(inc))
	return append(b, body...)
}

// Vote is one member's vote for one record in one ballot. A leader votes for its own proposal.
type Vote struct {
	Ref
	Hash Root
}

// Append appends the canonical encoding: the body of a VOTE or FORK message.
func (v Vote) Append(b []byte) []byte { return appendRoot(v.Ref.Append(b), v.Hash) }

// ReadVote reads what Append wrote.
func ReadVote(r *wire.Reader) Vote { return Vote{ReadRef(r), readRoot(r)} }

// Certificate proves a record. It has signatures over one and the same Vote: of a quorum of the
// previous record's electors or, for a fork record, FORK signatures of every elector that the
// record itself lists.
type Certificate struct {
	Vote
	Signatures []Signature // sorted by peer
}

// Signature is one member's signature over the certificate's vote.
type Signature struct {
	Peer PeerID
	Sig  []byte
}

// Append appends the canonical encoding.
func (c Certificate) Append(b []byte) []byte {
	b = c.Vote.Append(b)
	b = wire.AppendU32(b, uint32(len(c.Signatures)))
	for _, s := range c.Signatures {
		b = wire.AppendBytes(appendPeer(b, s.Peer), s.Sig)
	}
	return b
}

// ReadCertificate reads what Append wrote.
func ReadCertificate(r *wire.Reader) Certificate {
	c := Certificate{Vote: ReadVote(r)}
	for i := range r.Count(MaxMembers, 8) {
		s := Signature{readPeer(r), append([]byte{}, r.Bytes(MaxSigLen)...)}
		if i > 0 && c.Signatures[i-1].Peer >= s.Peer {
			r.Fail("signatures are not in the order of their peers")
		}
		c.Signatures = append(c.Signatures, s)
	}
	return c
}

// Verifier checks one signature. It is a pure function: a peer ID embeds its key.
type Verifier func(p PeerID, data, sig []byte) bool

// ErrCertificate is wrapped by every reason why a certificate does not prove its record.
var ErrCertificate = errors.New("certificate does not prove the record")

// QuorumRule says whether the members that in returns true for decide for all of them.
type QuorumRule func(members []Member, in func(Member) bool) bool

// Verify checks that c proves record, decided by a quorum of the members of the record before it.
// That electorate is ignored for a fork, which all members that it lists must have signed.
func (c Certificate) Verify(record Record, electorate []Member, quorum QuorumRule, verify Verifier) error {
	if c.Height != record.Height || c.Prev != record.Prev || c.Hash != record.Hash() {
		return fmt.Errorf("%w: it names another record", ErrCertificate)
	}
	return c.VerifySigners(record, electorate, quorum, verify)
}

// VerifySigners checks that those who decide a record signed c, which the caller knows to name it.
func (c Certificate) VerifySigners(record Record, electorate []Member, quorum QuorumRule, verify Verifier) error {
	t, voters := TypeVote, electorate
	if record.Kind == Fork {
		t, voters = TypeFork, record.Electors()
	}
	signed := make(map[PeerID]bool, len(c.Signatures))
	body := c.Vote.Append(nil)
	for _, s := range c.Signatures {
		i := Find(voters, s.Peer)
		if i < 0 {
			return fmt.Errorf("%w: %s is not one of its %d voters", ErrCertificate, s.Peer, len(voters))
		}
		if !verify(s.Peer, SignedBytes(t, record.Run, s.Peer, voters[i].Incarnation, body), s.Sig) {
			return fmt.Errorf("%w: the signature of %s is wrong", ErrCertificate, s.Peer)
		}
		signed[s.Peer] = true
	}
	in := func(m Member) bool { return signed[m.Peer] }
	if record.Kind == Fork && len(signed) == len(voters) && len(voters) > 0 || record.Kind != Fork &&
		quorum(voters, in) {
		return nil
	}
	return fmt.Errorf("%w: %d of %d voters signed", ErrCertificate, len(signed), len(voters))
}
