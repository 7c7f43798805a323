package wire

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// NotYet says that its sender, an elector, gives no HAVE for what a leader has chosen, by which
// rule, and for whose sake. HAVE may follow in the same ballot. Under RuleOffers it brings the
// signed offers with it: an elector that knows offers before there is a plan hands them over in
// this way. To the leader.
type NotYet struct {
	slot.Ref
	// slot.Plan.Group of the plan that it is about; zero: there is none yet
	About slot.Root
	Rule  Rule
	Whom  slot.Bitmap // over the members that the record before lists
	// not signed by the sender, but by their contributors; only under RuleOffers, sorted by peer
	Offers []slot.Offer
	Proofs []OfferProof // of Offers
}

// Rule is a rule that a leader's choice may break. The enumeration only grows.
type Rule uint8

// These are the rules about a step that its leader was free to choose.
const (
	RuleOffers   Rule = 1 // the plan lists whose offers the leader was given
	RuleElectors Rule = 2 // it lists almost all electors that contribute
	RuleOwners   Rule = 3 // its owners may own, and none owns too much
	RuleSegments Rule = 4 // no segment is without several electors of the plan
	RuleAudit    Rule = 5 // what an elector wants to check of a contribution is shown to it
)

// MaxHanded is the most offers that one NotYet hands over.
const MaxHanded = 64

// Type implements Body.
func (NotYet) Type() slot.MessageType { return slot.TypeNotYet }

// At is the place that the message is about.
func (m NotYet) At() slot.Ref { return m.Ref }

// Append implements Body.
func (m NotYet) Append(b []byte) []byte {
	b = canonical.AppendU8(AppendRoot(m.Ref.Append(b), m.About), uint8(m.Rule))
	return canonical.AppendBytes(b, m.Whom)
}

func readNotYet(r *canonical.Reader) NotYet {
	m := NotYet{Ref: slot.ReadRef(r), About: ReadRoot(r), Rule: Rule(r.U8()), Whom: readSet(r)}
	if r.Err() == nil && (m.Rule < RuleOffers || m.Rule > RuleAudit) {
		r.Fail("rule %d", m.Rule)
	}
	return m
}

func (m NotYet) appendCarried(b []byte) []byte {
	b = canonical.AppendU32(b, uint32(len(m.Offers)))
	for _, o := range m.Offers {
		b = o.Append(b)
	}
	return appendProofs(b, m.Proofs)
}

func (m NotYet) readCarried(r *canonical.Reader) Body {
	n := r.Count(MaxHanded, 4+32)
	if n > 0 && m.Rule != RuleOffers {
		r.Fail("offers that no rule asks for")
	}
	for i := range n {
		m.Offers = append(m.Offers, slot.ReadOffer(r))
		if i > 0 && m.Offers[i-1].Peer >= m.Offers[i].Peer {
			r.Fail("offers are not in the order of their peers")
		}
	}
	if m.Proofs = readProofs(r); r.Err() == nil && len(m.Proofs) != n {
		r.Fail("%d offers and %d proofs", n, len(m.Proofs))
	}
	return m
}

// String names a rule in logs.
func (r Rule) String() string { return fmt.Sprintf("S%d", uint8(r)) }
