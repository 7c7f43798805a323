package membership

import (
	"bytes"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Evidence (wire/message.go) is two bodies that one incarnation signed and that contradict each
// other.
// Every peer can check it without trusting another one. It evicts: the incarnation is left out of
// the next record, and neither its JOIN nor its offers are taken any more.
//
// A statement about a ring is no evidence: partial results pass through all its peers, and an owner
// may get others the second time. Such statements name no inputs.
//
// A restart makes no evidence: votes are on disk before they are sent (I6), and an owner that
// reduces again states the inputs that it used, so another set of contributors is another statement
// (HOLES H25).

// claim names one claim of one peer.
type claim struct {
	ref    slot.Ref // at ballot 0 for statements
	inputs slot.Root
	kind   slot.MessageType
	by     memberKey
}

const (
	maxClaims   = 4096 // claims remembered at the open position
	maxClaimsBy = 256  // of one peer
	// of members without a vote, who may be anybody's names: they leave room for the electors
	maxSeatless = maxClaims / 4
	// incarnations remembered, as many as one record can drop; the newest of those that matter
	// least is forgotten
	maxEvicted = wire.MaxEvidence
	// Timing.Alive between two announcements of one evidence, while the peer is listed or asks to
	// be
	repeatAfter = 16
)

// evidence remembers the members that contradicted themselves, and what members claimed at the open
// height.
type evidence struct {
	*facts
	*effects
	presence  *presence
	evictions []eviction
	claims    map[claim]wire.Message
	claimsBy  map[memberKey]int
	seatless  int // of the claims, by members without a vote
	accusing
}

// eviction is why a peer is out.
type eviction struct {
	memberKey
	proof wire.Evidence
	sent  time.Duration
}

// claimOf returns what a body commits its signer to. Two bodies with the same claim must have the
// same value.
func claimOf(by memberKey, b wire.Body) (key claim, value slot.Root, ok bool) {
	key = claim{kind: b.Type(), by: by}
	switch b := b.(type) {
	case wire.Draft:
		key.ref, value = b.Ref, b.Hash
	case wire.Have:
		key.ref, value = b.Ref, b.Hash
	case wire.Vote:
		key.ref, value = b.Ref, b.Hash
	case wire.ForkVote:
		key.ref, value = b.Ref, b.Hash
	case wire.Offer:
		// a sequence number is used once, whichever slot it is for
		key.ref, value = slot.Ref{Height: b.Seq}, slot.Hash(b.Append(nil))
	case wire.Segment:
		key.ref, key.inputs, value = slot.Ref{Height: b.Height, Prev: b.Prev}, b.Inputs, b.Root
		return key, value, b.Inputs != slot.Root{}
	default:
		return key, value, false
	}
	return key, value, true
}

// watchClaims keeps what a member claims at the open position, and checks it against the member's
// earlier claims.
func (ev *evidence) watchClaims(msg wire.Message) {
	by := memberKey{msg.From, msg.Incarnation}
	key, value, ok := claimOf(by, msg.Body)
	if !ok || by == ev.self || ev.checkMember(msg) != nil {
		return
	}
	before, had := ev.claims[key]
	if !had {
		anybody := ev.checkElector(msg) != nil
		if len(ev.claims) < maxClaims && ev.claimsBy[by] < maxClaimsBy && !(anybody && ev.seatless >= maxSeatless) {
			ev.claims[key] = signed(msg)
			ev.claimsBy[by]++
			ev.seatless += btoi(anybody)
		}
		return
	}
	if _, first, _ := claimOf(by, before.Body); first != value {
		ev.evict(evidenceOf(before, msg), true)
	}
}

// signed returns a message without what it carries beside its signed bytes: the record of a draft
// may be large.
func signed(msg wire.Message) wire.Message {
	switch b := msg.Body.(type) {
	case wire.Draft:
		msg.Body = wire.Draft{Vote: b.Vote}
	}
	return msg
}

func evidenceOf(a, b wire.Message) wire.Evidence {
	e := wire.Evidence{
		Kind: a.Body.Type(), Peer: a.From, Incarnation: a.Incarnation,
		First:  wire.SignedBody{Body: a.Body.Append(nil), Sig: a.Sig},
		Second: wire.SignedBody{Body: b.Body.Append(nil), Sig: b.Sig},
	}
	if bytes.Compare(e.First.Body, e.Second.Body) > 0 {
		e.First, e.Second = e.Second, e.First
	}
	return e
}

// checkEvidence says whether evidence proves what it says. It needs no more than the run.
func checkEvidence(e wire.Evidence, rules chain.Rules, verify slot.Verifier) error {
	wrong := chain.Invalid("evidence with a wrong signature")
	if e.Proven() && !e.Signed(rules.Run, verify) { // first: a proof takes milliseconds
		return wrong
	}
	if err := contradicts(e, rules.CheckProof); err != nil {
		return err
	}
	if !e.Proven() && !e.Signed(rules.Run, verify) {
		return wrong
	}
	return nil
}

// contradicts says whether the two messages of evidence contradict each other, or a proof the one
// message, whoever signed them.
func contradicts(e wire.Evidence, proofs chain.ProofChecker) error {
	if e.Proven() {
		return checkProof(e, proofs)
	}
	types := e.Types()
	first, err1 := wire.ParseBody(types[0], e.First.Body)
	second, err2 := wire.ParseBody(types[1], e.Second.Body)
	if err1 != nil || err2 != nil || bytes.Compare(e.First.Body, e.Second.Body) >= 0 {
		return chain.Invalid("evidence that cannot be read")
	}
	by := memberKey{e.Peer, e.Incarnation}
	a, x, ok := claimOf(by, first)
	if b, y, _ := claimOf(by, second); !ok || a != b || x == y {
		return chain.Invalid("evidence without a contradiction")
	}
	return nil
}

// receive checks the evidence that another peer found. The two signature checks are worth their
// time only if it concerns a member, or a peer that asks to be one.
func (ev *evidence) receive(e wire.Evidence, concerns bool) error {
	by := memberKey{e.Peer, e.Incarnation}
	if ev.evicted(by) {
		return ErrStale
	}
	if !concerns {
		return ErrSender
	}
	if err := checkEvidence(e, ev.cfg.Rules, ev.cfg.Verify); err != nil {
		return err
	}
	ev.evict(e, false)
	return nil
}

// evict remembers a peer as out, and tells the others.
func (ev *evidence) evict(e wire.Evidence, found bool) {
	by := memberKey{e.Peer, e.Incarnation}
	if ev.evicted(by) {
		return
	}
	if !ev.remember(eviction{memberKey: by, proof: e, sent: ev.now}) {
		return
	}
	if found {
		ev.announce(e)
	}
	if a := ev.presence.known[by]; a != nil {
		a.offer = nil
	}
	ev.reportPeer(EventEvicted, "", e.Peer,
		contradictionText(e)+", and can take part again as a new peer only, with a new data directory")
}

// remember keeps an eviction. Of too many it forgets the newest of those that are no members, then
// of members without a vote. Names cost nothing: whoever is convicted could have them contradict
// themselves until it is forgotten. It returns false if this one is forgotten.
func (ev *evidence) remember(v eviction) bool {
	ev.evictions = append(ev.evictions, v)
	if len(ev.evictions) <= maxEvicted {
		return true
	}
	out, least := 0, 3
	for i, v := range ev.evictions {
		if matters := ev.matters(v.memberKey); matters <= least {
			out, least = i, matters
		}
	}
	ev.evictions = slices.Delete(ev.evictions, out, out+1)
	return out < maxEvicted
}

// matters ranks whose eviction is remembered: electors before other members, and these before those
// that are none.
func (ev *evidence) matters(w memberKey) int {
	m, listed := chain.FindMember(ev.chain.Members(), w.peer, w.inc)
	return btoi(listed) + btoi(listed && m.Elects())
}

func contradictionText(e wire.Evidence) string {
	switch e.Kind { //nolint:exhaustive // all other kinds are of two messages of one type
	case wire.KindFalseOutcome:
		return "it signed an outcome that is not what the contributions give, as a proof shows"
	case wire.KindFalseOffer:
		return "it signed an offer of a contribution that is not what it commits to, as a proof shows"
	}
	return "it signed two " + wire.TypeName(e.Kind) + " messages that contradict each other"
}

func (ev *evidence) evicted(w memberKey) bool {
	return slices.ContainsFunc(ev.evictions, func(v eviction) bool { return v.memberKey == w })
}

// openAt forgets what members claimed at a height that is decided or left.
func (ev *evidence) openAt() {
	ev.claims, ev.claimsBy, ev.seatless = map[claim]wire.Message{}, map[memberKey]int{}, 0
	ev.accusing.asked = map[slot.PeerID]question{}
}

// repeat announces evidence again while the peer is listed or asks to be, because leaders
// change and forget.
func (ev *evidence) repeat(concerns func(memberKey) bool) {
	for i := range ev.evictions {
		v := &ev.evictions[i]
		if ev.now-v.sent >= repeatAfter*ev.cfg.Timing.Alive && concerns(v.memberKey) {
			v.sent = ev.now
			ev.announce(v.proof)
		}
	}
}
