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

func (m Draft) appendCarried(b []byte) []byte {
	if b = canonical.AppendBool(b, m.ByPlan != nil); m.ByPlan != nil {
		b = m.ByPlan.append(b)
	}
	return m.Drafted.append(b)
}

func (m Draft) readCarried(r *canonical.Reader) Body {
	if r.Bool() {
		m.ByPlan = readByPlan(r)
	}
	m.Drafted = readDrafted(r)
	c := &m.Record
	switch {
	case r.Err() != nil:
	case m.ByPlan == nil && !names(m.Vote, *c):
		r.Fail("a draft with another record than it names")
	case m.ByPlan != nil && (c.Kind != slot.Step || len(c.Contributions)+len(c.Segments)+len(m.Proofs) > 0 ||
		m.Grounds.QC != nil):
		r.Fail("a draft that leaves out the offers of a plan, and has some, or a QC")
	case m.ByPlan != nil:
		c.Contributions, c.Segments = nil, nil // not empty: left out
	}
	return m
}

// Brief returns a draft without its offers; the contributions are those in the set of the plan's
// offers.
func (m Draft) Brief(group slot.Root, used slot.Bitmap) Draft {
	m.ByPlan = &ByPlan{Group: group, Used: used, Segments: m.Record.Segments}
	m.Record.Contributions, m.Record.Segments, m.Proofs = nil, nil, nil
	return m
}

// Whole undoes Brief. It is as strict as if the draft had come whole, about the record's form and
// its hash.
func (m Draft) Whole(contributions []slot.Offer, proofs []OfferProof) (Draft, error) {
	m.Record.Contributions, m.Record.Segments, m.Proofs = contributions, m.ByPlan.Segments, proofs
	m.ByPlan = nil
	b := m.appendCarried(nil)
	if len(b) > slot.MaxMessage {
		return m, fmt.Errorf("a whole draft of %d bytes: %w (%d)", len(b), canonical.ErrTooLarge, slot.MaxMessage)
	}
	body, err := parseCarried(Draft{Vote: m.Vote}, b)
	if err != nil {
		return m, err
	}
	return body.(Draft), nil
}

func (p ByPlan) append(b []byte) []byte {
	b = canonical.AppendBytes(AppendRoot(b, p.Group), p.Used)
	b = canonical.AppendU32(b, uint32(len(p.Segments)))
	for _, s := range p.Segments {
		b = s.Append(b)
	}
	return b
}

func readByPlan(r *canonical.Reader) *ByPlan {
	p := &ByPlan{Group: ReadRoot(r), Used: readSet(r)}
	for range r.Count(slot.MaxSegments, minSegment) {
		p.Segments = append(p.Segments, slot.ReadSegment(r))
	}
	return p
}

// minSegment is the number of bytes of a segment of nobody.
const minSegment = 16 + 4 + 32

func (d Drafted) append(b []byte) []byte {
	b = d.Attached.Append(appendProofs(d.Record.Append(b), d.Proofs))
	return appendGrounds(d.Owners.append(b), d.Grounds)
}

func readDrafted(r *canonical.Reader) Drafted {
	return Drafted{
		Record: slot.ReadRecord(r), Proofs: readProofs(r), Attached: ReadAttachments(r), Owners: readOwners(r),
		Grounds: readGrounds(r),
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
