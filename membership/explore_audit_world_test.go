package membership

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// explorerAudits is what audits may find in an explorer's world. Which answer an audit has is
// another choice each time, of those that are possible:
//
//   - a false segment is found or not, as the samples fall out; if all is sampled, it is found by
//     each audit to which everything was shown;
//   - the liar shows what it has contributed to whom it likes, anew at each question, and so does
//     nobody for a contributor that has died;
//   - honest contributors that live show everything.
type explorerAudits struct {
	all     bool               // everything is sampled
	atHand  bool               // bytes of outcomes come at once
	mortal  int                // the place of the one peer that may die; below 0: nobody
	lies    map[slot.Root]bool // segments that are not what their inputs give
	believe bool               // a planted fault: any proof holds
	// a planted fault: a leader does not leave out what is not shown
	stubborn bool
}

// explorerProofs are checked by whoever gets them. A function is no part of a machine's state.
type explorerProofs struct {
	holds func(slot.Root, []byte) error
}

var errNoProof = errors.New("it proves nothing")

func (p explorerProofs) FalseOutcome(_ slot.PeerID, s wire.Segment, proof []byte) error {
	return p.holds(s.Segment.Root, proof)
}

func (p explorerProofs) FalseOffer(o slot.Offer, proof []byte) error { return p.holds(o.Root, proof) }

// proofOf is the proof that a segment is false. There is one of each lie.
func proofOf(root slot.Root) []byte { return append([]byte("a lie: "), root[:]...) }

func (a *explorerAudits) check(root slot.Root, proof []byte) error {
	if a.believe || a.lies[root] && slices.Equal(proof, proofOf(root)) {
		return nil
	}
	return errNoProof
}

// auditsWorld is a kind of world with audits.
type auditsWorld struct {
	liarLeads bool // the first term; else it follows, and owns a part
	seatless  bool // a fifth member, without a vote, which may die
	all       bool
	bytesLate bool // the outcome is fetched later than the draft comes
}

// newAuditsWorld makes a world of four electors, one of which lies.
func newAuditsWorld(t *testing.T, c auditsWorld) (*explorer, *world) {
	x, w := newAuditedRun(t, c.seatless)
	a := &explorerAudits{all: c.all, atHand: !c.bytesLate, mortal: -1, lies: map[slot.Root]bool{}}
	x.audits, x.at = a, maps.Clone(arrangements)
	x.at[slot.TypeDraft] = true
	x.rules.CheckProof = explorerProofs{a.check}
	if c.seatless {
		a.mortal = len(x.ids) - 1
	}
	m := x.locals[w.peers[0]].m
	leads := m.open.leader(0).Peer
	if !c.liarLeads {
		leads = m.open.leader(2 * slot.Tries).Peer
	}
	x.liar = &liar{
		at: slices.Index(x.ids, leads), ref: m.open.position(0), electors: m.chain.Electorate(), tries: 1,
		follows:  !c.liarLeads,
		attached: map[slot.Root]wire.Attachments{}, proofs: map[slot.Root][]wire.OfferProof{},
		owned: map[slot.Root]bool{}, stated: map[slot.Root][]wire.SignedSegment{}, lies: map[string][]*lie{},
		chain: m.chain,
	}
	for p := range w.peers {
		lo := local{dead: true}
		if p != x.liar.at {
			lo = x.locals[w.peers[p]]
			lo.m = copyMachine(lo.m)
			lo.m.cfg.Rules.CheckProof = x.rules.CheckProof
			changeRules(lo.m, func(r *chain.Rules) { r.CheckProof = x.rules.CheckProof })
			if c.liarLeads {
				x.notAwaited(lo.m)
			}
		}
		w.peers[p] = x.internLocal(lo)
	}
	if c.liarLeads {
		x.draftsChecked(w)
	} else {
		x.contributesToo(w)
	}
	x.deliverAtOnce(w, func(t slot.MessageType) bool { return x.at[t] })
	return x, w
}

// newAuditedRun makes a run of four electors that audits, and of a fifth member if it is to have
// one.
func newAuditedRun(t *testing.T, seatless bool) (*explorer, *world) {
	if !seatless {
		rules := labRules()
		rules.Byzantine, rules.AuditSamples, rules.StartPeers = true, 8, 4
		return newExplorerOf(t, rules, 4, 0, 1)
	}
	l := auditedLab(t, "ABCD")
	l.add("E")
	l.connect()
	l.awaits(t, "a fifth member", func() bool {
		return !slices.ContainsFunc(l.peers, func(p *labPeer) bool {
			v := p.m.View()
			return len(v.Tip.Members) < 5 || v.Tip.Height != l.peers[0].m.chain.Height() || v.Applied < v.Tip.Height
		})
	})
	x, w := explorerOf(l, l.peers[0].m.chain.OpenSlot())
	if n := len(x.locals[w.peers[0]].m.chain.Electorate()); n != 4 {
		t.Fatalf("%d electors", n)
	}
	return x, w
}

// notAwaited has no leader wait for what the liar offers.
func (x *explorer) notAwaited(m *Machine) {
	for k, a := range m.presence.known {
		if k.peer == x.ids[x.liar.at] {
			a.heard = never
		}
	}
}

// contributesToo has the liar offer, so that leaders plan with it.
func (x *explorer) contributesToo(w *world) {
	id, _ := x.internParcel(parcel{to: anybody, msg: x.offer()})
	for p, l := range w.peers {
		if x.locals[l].m != nil {
			x.apply(w, p, input{inParcel, id})
		}
	}
}

// draftsChecked gives the liar, who leads, steps to draft: what it says of their first segment,
// which it owns, is true or false, or an honest elector is said to have signed it. Another elector
// owns the second segment, as none may own more than half (V14). In one of the steps the liar does
// not contribute.
func (x *explorer) draftsChecked(w *world) {
	x.deliverAtOnce(w, func(t slot.MessageType) bool { return x.at[t] })
	offers := x.offers(w)
	honest := slices.DeleteFunc(slices.Clone(offers), func(o wire.Message) bool { return o.From == x.ids[x.liar.at] })
	own := wire.SignedSegment{Peer: x.ids[x.liar.at], Incarnation: x.incs[x.liar.at]}
	framed := wire.SignedSegment{Peer: honest[0].From, Incarnation: honest[0].Incarnation, Sig: []byte("forged")}
	other := wire.SignedSegment{Peer: honest[1].From, Incarnation: honest[1].Incarnation}
	for _, c := range []struct {
		outcome string
		offers  []wire.Message
		by      wire.SignedSegment
		lie     bool
	}{
		{"true", offers, own, false},
		{"false", offers, own, true},
		{"without the liar", honest, own, false},
		{"framed", offers, framed, true},
	} {
		root := slot.Hash([]byte(c.outcome))
		r := x.addStepOf([]slot.Root{root, slot.Hash([]byte("sound"))}, slices.Clone(c.offers)...)
		x.liar.stated[r.Hash()] = []wire.SignedSegment{c.by, other}
		if c.lie {
			x.audits.lies[root] = true
		}
	}
}

// ownersAt is what the owners of the segments of a record of the liar have signed in a ballot.
func (x *explorer) ownersAt(at slot.Ref, r slot.Record) (o wire.Owners) {
	o.Stated = slices.Clone(x.liar.stated[r.Hash()])
	if len(o.Stated) > 0 {
		o.Group = slot.Hash([]byte("group"))
	}
	for i := range o.Stated {
		s := &o.Stated[i]
		s.Contributors = r.Segments[i].Contributors
		if b := o.Segment(i, at, r); s.Sig == nil {
			s.Sig = labSign(s.Peer, slot.SignedBytes(b.Type(), x.rules.Run, s.Peer, s.Incarnation, b.Append(nil)))
		}
	}
	return o
}

// auditLies is what the liar may say besides: as an owner what is true or false, against honest
// owners and contributors what proves nothing, and that others show it nothing.
func (x *explorer) auditLies(k knowledge) (lies []wire.Body) {
	if x.audits == nil {
		return nil
	}
	self, seen := x.ids[x.liar.at], map[slot.Root]bool{}
	for _, p := range k.plans {
		if seen[slot.Hash(p.Append(nil))] {
			continue
		}
		seen[slot.Hash(p.Append(nil))] = true
		for _, piece := range p.Pieces {
			if piece.Owner == self {
				lies = append(lies, x.segmentOf(p.Plan, piece, false), x.segmentOf(p.Plan, piece, true))
			}
		}
		for i := range p.Offers {
			if p.Offers[i].Peer != self {
				lies = append(lies, x.accusesOffer(p, i))
				break
			}
		}
		for _, m := range x.liar.chain.Members() {
			if m.Peer != self {
				lies = append(lies, shownNothing(p.Plan, m.Peer))
			}
		}
	}
	if len(k.claims) > 0 {
		c := k.claims[0]
		lies = append(lies, wire.Evidence{
			Kind: wire.KindFalseOutcome, Peer: c.From, Incarnation: c.Incarnation,
			First:  wire.SignedBody{Body: c.Body.Append(nil), Sig: c.Sig},
			Second: wire.SignedBody{Body: []byte("nothing")},
		})
	}
	return lies
}

// segmentOf is the liar's SEGMENT of a piece of its own.
func (x *explorer) segmentOf(p slot.Plan, piece slot.Piece, lie bool) wire.Segment {
	s := x.reduced(p, piece)
	if lie {
		s.Root = slot.Hash(append([]byte("false"), s.Root[:]...))
		x.audits.lies[s.Root] = true
	}
	x.liar.owned[s.Root] = true
	return segmentOf(p, s)
}

// shownNothing says that a member shows the liar nothing of its contribution.
func shownNothing(p slot.Plan, whom slot.PeerID) wire.Lost {
	lost := wire.Lost{Ref: p.Ref, Peer: whom, Reason: wire.LostSamples}
	if i := p.Place(whom); i >= 0 {
		lost.Round = slot.Hash(p.Offers[i].Append(nil))
	}
	return lost
}

func (x *explorer) accusesOffer(p wire.Plan, i int) wire.Evidence {
	return wire.Evidence{
		Kind: wire.KindFalseOffer, Peer: p.Offers[i].Peer, Incarnation: p.Proofs[i].Incarnation,
		First:  wire.SignedBody{Body: wire.Offer{Offer: p.Offers[i]}.Append(nil), Sig: p.Proofs[i].Sig},
		Second: wire.SignedBody{Body: []byte("nothing")},
	}
}
