package membership

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// This is the lab's auditor. The world knows which reduced bytes are false, and an honest elector
// finds each of them. A proof is the name of the lie.

// labAudits is what the lab knows of the outcomes and contributions of all peers.
type labAudits struct {
	lies    map[slot.Root]bool // roots of segments that are not what the contributions give
	offers  map[slot.Root]bool // roots of contributions that are not what their offers commit to
	padding int                // bytes that proofs have besides what they say
	unread  int                // messages that nobody could read: a proof in them is too large
	seen    int                // outcomes that were audited
	found   int                // audits that found a lie
	dark    int                // audits to which a contribution was not shown
}

// labAuditor is how one peer takes part in audits.
type labAuditor struct {
	forges bool          // as an owner it states bytes that are false
	hides  string        // peers that it does not show its contribution, by name; "*": all
	delay  time.Duration // its audits take that long
	blind  bool          // it finds nothing
}

func newLabAudits() *labAudits {
	return &labAudits{lies: map[slot.Root]bool{}, offers: map[slot.Root]bool{}}
}

// proof is what convicts the signer of a root that is a lie.
func (a *labAudits) proof(of slot.Root) []byte {
	return append(append([]byte("a lie: "), of[:]...), make([]byte, a.padding)...)
}

// ungossiped is a padding with which proofs are announced by their hash.
const ungossiped = 9 << 10

// reads reads the evidence in a message as those do who get its bytes.
func (a *labAudits) reads(body wire.Body) error {
	var err error
	switch b := body.(type) {
	case wire.Evidence:
		_, err = wire.ParseBody(b.Type(), b.Append(nil))
	case wire.Draft:
		r := canonical.NewReader(b.Attached.Append(nil))
		wire.ReadAttachments(r)
		if err = r.Done(); err == nil && wire.Size(b) > slot.MaxMessage {
			err = canonical.ErrTooLarge
		}
	}
	a.unread += btoi(err != nil)
	return err
}

func (a *labAudits) check(lies map[slot.Root]bool, of slot.Root, proof []byte) error {
	if want := append([]byte("a lie: "), of[:]...); !lies[of] || !bytes.HasPrefix(proof, want) {
		return chain.Invalid("a proof that proves nothing")
	}
	return nil
}

// FalseOutcome implements chain.ProofChecker.
func (a *labAudits) FalseOutcome(_ slot.PeerID, s wire.Segment, proof []byte) error {
	return a.check(a.lies, s.Segment.Root, proof)
}

// FalseOffer implements chain.ProofChecker.
func (a *labAudits) FalseOffer(o slot.Offer, proof []byte) error {
	return a.check(a.offers, o.Root, proof)
}

// audit checks an outcome at once, or after the peer's delay.
func (p *labPeer) audit(w WorkAudit) {
	if p.auditor.delay > 0 && !p.lab.manual {
		p.later(p.auditor.delay, func() { p.report(p.audited(w)) })
		return
	}
	p.report(p.audited(w))
}

// audited is what a peer finds in an outcome.
func (p *labPeer) audited(w WorkAudit) ReportAudited {
	a, r := p.lab.audits, ReportAudited{Ref: w.Draft.Ref, Record: w.Record}
	a.seen++
	if p.auditor.blind {
		return r
	}
	for i, s := range w.Draft.Segments {
		if a.lies[s.Root] && w.Owners[i] != p.id {
			r.False = append(r.False, FalseSegment{Segment: i, Proof: a.proof(s.Root)})
		}
	}
	for _, o := range w.Draft.Contributions {
		if !p.lab.peer(labName(o.Peer)).shows(p) {
			r.Unshown = append(r.Unshown, o.Peer)
		}
	}
	a.found += btoi(len(r.False) > 0)
	a.dark += btoi(len(r.Unshown) > 0)
	return r
}

// shows says whether a peer answers the auditor of another.
func (p *labPeer) shows(to *labPeer) bool {
	return p == to || p.lab.reaches(p, to) && p.auditor.hides != "*" && !strings.Contains(p.auditor.hides, to.name)
}

// forged is the root of reduced bytes, which an owner that forges changes.
func (p *labPeer) forged(root slot.Root) slot.Root {
	if p.auditor.forges {
		root = slot.Hash(append([]byte("false"), root[:]...))
		p.lab.audits.lies[root] = true
	}
	return root
}

// certifiedLies lists the segments of a peer's chain that are false.
func (p *labPeer) certifiedLies() (roots []slot.Root) {
	for _, k := range p.m.chain.Commits() {
		for _, s := range k.Record.Segments {
			if p.lab.audits.lies[s.Root] && !slices.Contains(roots, s.Root) {
				roots = append(roots, s.Root)
			}
		}
	}
	return roots
}

// falseProof is evidence of a proof that proves nothing, against what somebody has signed.
func (l *labLiar) falseProof() wire.Body {
	for _, msg := range slices.Backward(l.p.lab.heard) {
		kind := wire.KindFalseOutcome
		switch msg.Body.(type) {
		case wire.Segment:
		case wire.Offer:
			kind = wire.KindFalseOffer
		default:
			continue
		}
		return wire.Evidence{
			Kind: kind, Peer: msg.From, Incarnation: msg.Incarnation,
			First:  wire.SignedBody{Body: msg.Body.Append(nil), Sig: msg.Sig},
			Second: wire.SignedBody{Body: l.p.lab.audits.proof(slot.Root{byte(l.told)})},
		}
	}
	return nil
}
