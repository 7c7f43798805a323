package wire

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// parseCarried reads what a message carries beside its signed bytes, and adds it to the body. Its
// errors wrap canonical.ErrMalformed. The result shares no memory with b.
func parseCarried(body Body, b []byte) (Body, error) {
	r := canonical.NewReader(b)
	if c, ok := body.(carrier); ok {
		body = c.readCarried(r)
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("what a %s message of %d bytes carries: %w", TypeName(body.Type()), len(b), err)
	}
	return body, nil
}

func (m Draft) appendCarried(b []byte) []byte { return m.Drafted.append(b) }

func (m Draft) readCarried(r *canonical.Reader) Body {
	if m.Drafted = readDrafted(r); r.Err() == nil && !names(m.Vote, m.Record) {
		r.Fail("a draft with another record than it names")
	}
	return m
}

func (d Drafted) append(b []byte) []byte {
	return appendGrounds(d.Attached.Append(appendProofs(d.Record.Append(b), d.Proofs)), d.Grounds)
}

func readDrafted(r *canonical.Reader) Drafted {
	return Drafted{
		Record: slot.ReadRecord(r), Proofs: readProofs(r), Attached: ReadAttachments(r), Grounds: readGrounds(r),
	}
}

// names says whether a vote is for a record.
func names(v slot.Vote, c slot.Record) bool {
	return v.Height == c.Height && v.Prev == c.Prev && v.Hash == c.Hash()
}

func (m Propose) appendCarried(b []byte) []byte { return appendQC(b, m.QC) }

func (m Propose) readCarried(r *canonical.Reader) Body {
	m.QC = readQC(r)
	if m.QC == nil || m.QC.Ballot != m.Ballot || m.QC.Hash != m.Hash {
		r.Fail("a proposal without the QC of its ballot")
	}
	return m
}

// ByHash says whether a COMMIT names its record and does not bring it.
func (m Commit) ByHash() bool { return m.Record.Height == 0 }

func (m Commit) appendCarried(b []byte) []byte {
	if b = canonical.AppendBool(b, !m.ByHash()); m.ByHash() {
		return b
	}
	return m.Record.Append(b)
}

func (m Commit) readCarried(r *canonical.Reader) Body {
	if !r.Bool() {
		return m
	}
	if m.Record = slot.ReadRecord(r); r.Err() == nil && (m.ByHash() || !names(m.Certificate.Vote, m.Record)) {
		r.Fail("a COMMIT with another record than it names")
	}
	return m
}

func (m Promise) appendCarried(b []byte) []byte {
	if b = canonical.AppendBool(b, m.Locked != nil); m.Locked == nil {
		return b
	}
	return m.Locked.append(b)
}

func (m Promise) readCarried(r *canonical.Reader) Body {
	if !r.Bool() {
		return m
	}
	l := readLocked(r)
	if r.Err() == nil && (m.Lock == nil || *m.Lock != l.QC.Lock() || m.Lock.Ballot >= m.Ballot ||
		!names(slot.Vote{Ref: m.Ref, Hash: l.QC.Hash}, l.Record)) {
		r.Fail("a promise with another record than its lock")
	}
	m.Locked = &l
	return m
}

func (l Locked) append(b []byte) []byte {
	return appendProofs(l.Record.Append(appendQC(b, &l.QC)), l.Proofs)
}

func readLocked(r *canonical.Reader) (l Locked) {
	if q := readQC(r); q != nil {
		l.QC = *q
	} else {
		r.Fail("a lock without a QC")
	}
	l.Record, l.Proofs = slot.ReadRecord(r), readProofs(r)
	return l
}
