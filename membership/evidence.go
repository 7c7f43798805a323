package membership

import (
	"bytes"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Evidence (message.go) is two things that one incarnation signed and that contradict each other. Whoever is shown it can check it: nobody's
// word is needed. It evicts: the incarnation is left out of the next record, and neither its JOIN nor its offers are taken any more.
//
// What a ring made is no evidence either: partial results pass through all who are in it, so that its owner may have been given others the
// second time. Statements about a ring have no inputs.
//
// A restart makes no evidence: votes are on disk before they are sent (I6), and an owner that reduces again states the inputs that
// it used, so another set of contributors is another statement (HOLES H25).

// said names one claim of one peer.
type said struct {
	ref    slot.Ref // Ballot 0 for statements
	inputs slot.Root
	kind   slot.MessageType
	by     who
}

const (
	maxSaid       = 4096 // remembered at the open place
	maxSaidBy     = 256  // of one peer
	maxEvicted    = 64   // incarnations remembered; the oldest is forgotten
	sayAgainAfter = 16   // Timing.Alive between two announcements of one evidence, while the peer is listed or asks to be
)

// eviction is why a peer is out.
type eviction struct {
	who
	proof Evidence
	sent  time.Duration
}

// claimOf is what a body commits its signer to: two bodies with the same claim must be equal in what they claim.
func claimOf(by who, b Body) (key said, value slot.Root, ok bool) {
	key = said{kind: b.Type(), by: by}
	switch b := b.(type) {
	case Vote:
		key.ref, value = b.Ref, b.Hash
	case ForkVote:
		key.ref, value = b.Ref, b.Hash
	case Segment:
		key.ref, key.inputs, value = slot.Ref{Height: b.Height, Prev: b.Prev}, b.Inputs, b.Root
		return key, value, b.Inputs != slot.Root{}
	default:
		return key, value, false
	}
	return key, value, true
}

// watchWords keeps what a member said at the open place, and looks whether it contradicts what it said before.
func (m *Machine) watchWords(msg Message) {
	by := who{msg.From, msg.Incarnation}
	key, value, ok := claimOf(by, msg.Body)
	if !ok || by == m.presence.self || m.from(msg) != nil {
		return
	}
	d := m.open
	before, had := d.said[key]
	if !had {
		if len(d.said) < maxSaid && d.saidBy[by] < maxSaidBy {
			d.said[key] = msg
			d.saidBy[by]++
		}
		return
	}
	if _, first, _ := claimOf(by, before.Body); first != value {
		m.evict(evidenceOf(before, msg), true)
	}
}

func evidenceOf(a, b Message) Evidence {
	e := Evidence{
		Kind: a.Body.Type(), Peer: a.From, Incarnation: a.Incarnation,
		First: Said{a.Body.Append(nil), a.Sig}, Second: Said{b.Body.Append(nil), b.Sig},
	}
	if bytes.Compare(e.First.Body, e.Second.Body) > 0 {
		e.First, e.Second = e.Second, e.First
	}
	return e
}

// Check says whether evidence proves what it says. It needs no more than the run.
func (e Evidence) Check(run slot.Root, verify slot.Verifier) error {
	by := who{e.Peer, e.Incarnation}
	first, err1 := ParseBody(e.Kind, e.First.Body)
	second, err2 := ParseBody(e.Kind, e.Second.Body)
	if err1 != nil || err2 != nil || bytes.Compare(e.First.Body, e.Second.Body) >= 0 {
		return invalid("evidence that cannot be read")
	}
	a, x, ok := claimOf(by, first)
	if b, y, _ := claimOf(by, second); !ok || a != b || x == y {
		return invalid("evidence without a contradiction")
	}
	for _, s := range []Said{e.First, e.Second} {
		if !verify(e.Peer, slot.SignedBytes(e.Kind, run, e.Peer, e.Incarnation, s.Body), s.Sig) {
			return invalid("evidence with a wrong signature")
		}
	}
	return nil
}

// onEvidence takes in what somebody found. Only members, and those who ask to be, are worth the two signature checks.
func (m *Machine) onEvidence(e Evidence) error {
	by := who{e.Peer, e.Incarnation}
	if m.evicted(by) {
		return ErrStale
	}
	_, member := findMember(m.chain.electorate(), e.Peer, e.Incarnation)
	if a := m.presence.known[by]; !member && (a == nil || !m.joining(a)) {
		return ErrSender
	}
	if err := e.Check(m.cfg.Rules.Run, m.cfg.Verify); err != nil {
		return err
	}
	m.evict(e, false)
	return nil
}

// evict remembers a peer as out, and tells the others.
func (m *Machine) evict(e Evidence, found bool) {
	by := who{e.Peer, e.Incarnation}
	if m.evicted(by) {
		return
	}
	v := eviction{who: by, proof: e, sent: m.now}
	if found {
		m.gossip(e)
	}
	m.evictions = append(m.evictions, v)
	m.evictions = m.evictions[max(0, len(m.evictions)-maxEvicted):]
	if a := m.presence.known[by]; a != nil {
		a.offer = nil
	}
	m.event(Event{
		Kind: EventEvicted, Height: m.chain.height(), Slot: m.chain.tip().Slot, Peer: e.Peer,
		Detail: "it signed two " + TypeName(e.Kind) + " messages that contradict each other",
	})
}

func (m *Machine) evicted(w who) bool {
	return slices.ContainsFunc(m.evictions, func(v eviction) bool { return v.who == w })
}

// unwelcome says whether a peer is to be no member any more: evicted for what it signed, or removed by order.
func (m *Machine) unwelcome(w who) bool { return m.barred(w.peer) || m.evicted(w) }

// repeatEvidence announces evidence again while the peer is listed or asks to be: leaders change, and forget.
func (m *Machine) repeatEvidence() {
	for i := range m.evictions {
		v := &m.evictions[i]
		_, listed := findMember(m.chain.electorate(), v.peer, v.inc)
		a := m.presence.known[v.who]
		if m.now-v.sent >= sayAgainAfter*m.cfg.Timing.Alive && (listed || a != nil && m.joining(a)) {
			v.sent = m.now
			m.gossip(v.proof)
		}
	}
}

// inputsOf names what a statement about a range of a plan is computed from: all that could make its bytes differ. In a ring nobody can
// say: zero.
func inputsOf(p slot.Plan, s slot.Segment) (none slot.Root) {
	if len(p.Ring) > 0 {
		return none
	}
	b := wire.AppendU64([]byte("p2pdiloco/inputs/1"), p.Slot)
	b = wire.AppendU32(b, p.Fragment)
	b = wire.AppendU64(wire.AppendU64(b, s.Range.Begin), s.Range.End)
	for i, o := range p.Offers {
		if s.Contributors.Has(i) {
			b = o.Append(b)
		}
	}
	return slot.Hash(b)
}
