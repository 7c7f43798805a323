package membership

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// liar is the elector of an explorer's world that is no machine: the leader of the first ballots.
// It knows all that was said, and its signature exists for anything, at any time, towards anybody.
// What it may say follows from what the honest electors have signed, so no world has to keep it.
//
// It has the tries of term 0. Its records are two that honest electors would accept, and those that
// honest leaders have drafted.
type liar struct {
	at       int      // its place among the peers
	ref      slot.Ref // of the height that it attacks, at ballot 0
	tries    uint32
	follows  bool // it leads none of these ballots
	electors []slot.Member
	records  []slot.Record
	attached map[slot.Root]wire.Attachments
	proofs   map[slot.Root][]wire.OfferProof
	owned    map[slot.Root]bool // reduced bytes that it serves
	// by record, for audits: of each segment; without a signature it is what its owner would say
	stated map[slot.Root][]wire.SignedSegment
	terms  []uint32 // ballots of later terms that it promises from the beginning

	lies  map[string][]*lie // by what was said
	chain *chain.Chain      // below the attacked height
}

// lie is something that the liar may say.
type lie struct {
	body   wire.Body
	class  int // see classOf; 0: not known yet
	parcel int // 0: not known yet; below 0: it never reaches a machine
}

func (l *liar) serves(r slot.Root) bool { return l != nil && l.owned[r] }

// anybody is the receiver of a lie. The liar may say it anew at any time, so worlds do not keep it.
const anybody = -2

// knowledge is what honest electors have signed at the attacked height.
type knowledge struct {
	records  map[slot.Root]slot.Record
	haves    map[wire.Lock][]wire.SignedHave
	votes    map[wire.Lock][]slot.Signature
	promises map[uint32][]wire.Promised
	prepared []uint32    // ballots for which honest leaders want promises
	drafted  []wire.Lock // drafts and proposals of honest leaders
	proposed []wire.Lock
	plans    []wire.Plan    // of honest leaders
	claims   []wire.Message // OFFERs and SEGMENTs
}

// newLiarsWorld makes a world of n electors, one of which lies: the first leader.
func newLiarsWorld(t *testing.T, rules chain.Rules, n int, tries uint32) (*explorer, *world) {
	rules.StartPeers = max(n, rules.StartPeers)
	x, w := newExplorerOf(t, rules, n, 0, 1)
	m := x.locals[w.peers[0]].m
	first := m.open.leader(0).Peer
	l := &liar{
		at: slices.Index(x.ids, first), ref: m.open.position(0), electors: m.chain.Electorate(), tries: tries,
		attached: map[slot.Root]wire.Attachments{}, proofs: map[slot.Root][]wire.OfferProof{},
		owned: map[slot.Root]bool{}, lies: map[string][]*lie{}, chain: m.chain,
	}
	x.liar, x.at = l, arrangements
	for _, name := range []string{"X", "Y"} {
		r := x.record(slot.Members, insertMember(m.chain.Members(), slot.Member{Peer: labID(name), Incarnation: 1}))
		if err := m.chain.Check(r, 0); err != nil {
			t.Fatal(err)
		}
		l.records = append(l.records, r)
	}
	for p := range w.peers {
		lo := local{dead: true}
		if p != l.at {
			lo = x.locals[w.peers[p]]
			lo.m = copyMachine(lo.m)
			for k, a := range lo.m.presence.known {
				if k.peer == first { // no leader waits for what it offers
					a.heard = never
				}
			}
		}
		w.peers[p] = x.internLocal(lo)
	}
	return x, w
}

// record is one of the attacked height with these members.
func (x *explorer) record(kind slot.Kind, listed []slot.Member) slot.Record {
	c := x.liar.chain
	m := x.locals[0].m
	return c.Settle(slot.Record{
		Run: x.rules.Run, Kind: kind, Height: x.liar.ref.Height, Prev: x.liar.ref.Prev, Slot: c.Tip().Slot,
		StateRoot: m.model.state.root, Work: c.WorkAfter(kind, nil),
	}, chain.Turnover{Listed: listed})
}

func (x *explorer) sign(b wire.Body) wire.Message {
	msg := wire.Message{From: x.ids[x.liar.at], Incarnation: x.incs[x.liar.at], Body: b}
	msg.Sig = labSign(msg.From, slot.SignedBytes(b.Type(), x.rules.Run, msg.From, msg.Incarnation, b.Append(nil)))
	return msg
}

// knows gathers what was signed in a world.
func (x *explorer) knows(w *world) (k knowledge, key string) {
	k = knowledge{
		records: map[slot.Root]slot.Record{}, haves: map[wire.Lock][]wire.SignedHave{},
		votes: map[wire.Lock][]slot.Signature{}, promises: map[uint32][]wire.Promised{},
	}
	for _, r := range x.liar.records {
		k.records[r.Hash()] = r
	}
	var b []byte
	w.parcels(func(id int) {
		p := x.parcels[id]
		at := placeOf(p.msg.Body)
		if at.Height != x.liar.ref.Height || at.Prev != x.liar.ref.Prev {
			return
		}
		b = append(b, byte(id), byte(id>>8))
		from, inc, sig := p.msg.From, p.msg.Incarnation, p.msg.Sig
		switch m := p.msg.Body.(type) {
		case wire.Plan:
			k.plans = append(k.plans, m)
		case wire.Segment:
			k.claims = append(k.claims, p.msg)
		case wire.Draft:
			k.records[m.Hash] = m.Record
			k.drafted = append(k.drafted, wire.Lock{Ballot: m.Ballot, Hash: m.Hash})
		case wire.Propose:
			k.proposed = append(k.proposed, wire.Lock{Ballot: m.Ballot, Hash: m.Hash})
		case wire.Retry:
			k.prepared = append(k.prepared, m.Ballot)
		case wire.Have:
			if l := (wire.Lock{Ballot: m.Ballot, Hash: m.Hash}); p.to < 0 {
				k.haves[l] = append(k.haves[l],
					wire.SignedHave{Peer: from, Incarnation: inc, Ballot: m.Ballot, Sig: sig})
			}
		case wire.Vote:
			if l := (wire.Lock{Ballot: m.Ballot, Hash: m.Hash}); p.to < 0 {
				k.votes[l] = append(k.votes[l], slot.Signature{Peer: from, Sig: sig})
			}
		case wire.Promise:
			if p.to < 0 {
				k.promises[m.Ballot] = append(k.promises[m.Ballot],
					wire.Promised{Peer: from, Incarnation: inc, Lock: m.Lock, Sig: sig})
			}
		}
	})
	return k, string(b)
}

// checkCertifiable checks A1 as soon as the votes allow it, whether or not a COMMIT was sent.
func (x *explorer) checkCertifiable(w *world) {
	if x.liar == nil {
		return
	}
	k, _ := x.knows(w)
	var certified *wire.Lock
	for l, votes := range k.votes {
		in := func(m slot.Member) bool {
			return m.Peer == x.ids[x.liar.at] ||
				slices.ContainsFunc(votes, func(s slot.Signature) bool { return s.Peer == m.Peer })
		}
		if !x.rules.Quorum(x.liar.electors, in) {
			continue
		}
		if fault := x.wrongIn(w, k.records[l.Hash]); fault != "" {
			x.fail(w, fault)
		}
		if certified != nil && certified.Hash != l.Hash {
			x.fail(w, fmt.Sprintf("A1: %s in ballot %d and %s in ballot %d can both be certified",
				certified.Hash.Short(), certified.Ballot, l.Hash.Short(), l.Ballot))
		}
		certified = &l
	}
}

// wrongIn says what is wrong with a record that can be certified.
func (x *explorer) wrongIn(w *world, r slot.Record) string {
	honest := func(p slot.PeerID) bool { i := slices.Index(x.ids, p); return i >= 0 && i != x.liar.at }
	for _, e := range x.liar.electors {
		if _, stays := chain.FindMember(r.Members, e.Peer, e.Incarnation); !stays && honest(e.Peer) && x.deaths == 0 {
			return fmt.Sprintf("A3: %s, which all hear, can be dropped by record %s", labName(e.Peer), r.Hash().Short())
		}
	}
	if !x.rules.Grows(x.liar.electors, r.Electors()) {
		return fmt.Sprintf("A8: the %d electors are no quorum of the %d of record %s", len(x.liar.electors),
			len(r.Electors()), r.Hash().Short())
	}
	for _, o := range r.Contributions {
		if honest(o.Peer) && !x.offered(w, o) {
			return fmt.Sprintf("A2: record %s has an offer that %s did not make", r.Hash().Short(), labName(o.Peer))
		}
	}
	return ""
}

// offered says whether a peer has made an offer.
func (x *explorer) offered(w *world, o slot.Offer) bool {
	made := false
	w.parcels(func(id int) {
		offer, ok := x.parcels[id].msg.Body.(wire.Offer)
		made = made || ok && offer.Offer == o
	})
	return made
}

// tryLies is what the liar may say to an honest elector.
func (x *explorer) tryLies(w *world, p int, try func(int, input, func() string)) {
	if x.liar == nil {
		return
	}
	for _, l := range x.liesIn(w) {
		if id, ok := x.said(l); ok {
			try(p, input{inParcel, id}, x.toldBy(p, id))
		}
	}
}

func (x *explorer) toldBy(p, id int) func() string {
	return func() string {
		return fmt.Sprintf("the liar %s to %s: %s", labName(x.ids[x.liar.at]), labName(x.ids[p]),
			describe(x.parcels[id].msg.Body))
	}
}

// liesIn lists what the liar may say in a world.
func (x *explorer) liesIn(w *world) []*lie {
	k, key := x.knows(w)
	lies, ok := x.liar.lies[key]
	if !ok {
		for _, b := range x.inventLies(k) {
			lies = append(lies, &lie{body: b})
		}
		x.liar.lies[key] = lies
	}
	return lies
}

// said returns the parcel of a lie. A message with a false signature is refused before it reaches a
// machine.
func (x *explorer) said(l *lie) (id int, ok bool) {
	if l.parcel == 0 {
		l.parcel = -1
		if x.plant.unsigned || wire.CheckProofs(l.body, x.rules.Run, labVerify) == nil {
			id, ok := x.internParcel(parcel{to: anybody, msg: x.sign(l.body)})
			if ok {
				l.parcel = id + 1
			}
		}
	}
	return l.parcel - 1, l.parcel > 0
}

func (x *explorer) inventLies(k knowledge) (lies []wire.Body) {
	l := x.liar
	at := func(b uint32) slot.Ref { r := l.ref; r.Ballot = b; return r }
	vote := func(k wire.Lock) slot.Vote { return slot.Vote{Ref: at(k.Ballot), Hash: k.Hash} }
	hashes := slices.SortedFunc(maps.Keys(k.records), func(a, b slot.Root) int { return slices.Compare(a[:], b[:]) })
	for b := range l.tries {
		if l.follows {
			break
		}
		grounds := x.inventGrounds(k, b, hashes)
		if b > 0 {
			lies = append(lies, wire.Retry{Ref: at(b)})
		}
		for _, h := range hashes {
			v := wire.Lock{Ballot: b, Hash: h}
			for _, g := range grounds {
				if g.QC == nil || g.QC.Hash == h {
					drafted := wire.Drafted{
						Record: k.records[h], Proofs: l.proofs[h], Attached: l.attached[h], Grounds: g,
						Owners: x.ownersAt(at(b), k.records[h]),
					}
					lies = append(lies, wire.Draft{Vote: vote(v), Drafted: drafted})
				}
			}
			q := x.qcOf(k, v)
			lies = append(lies, wire.Propose{Vote: vote(v), QC: &q})
		}
	}
	voted := slices.SortedFunc(maps.Keys(k.votes), func(a, b wire.Lock) int {
		return cmp.Or(cmp.Compare(a.Ballot, b.Ballot), slices.Compare(a.Hash[:], b.Hash[:]))
	})
	for _, v := range voted {
		votes := k.votes[v]
		mine := slot.Signature{Peer: x.ids[l.at], Sig: x.sign(wire.Vote{Vote: vote(v)}).Sig}
		votes = append(slices.Clone(votes), mine)
		slices.SortFunc(votes, func(a, b slot.Signature) int { return cmp.Compare(a.Peer, b.Peer) })
		lies = append(lies, wire.Commit{
			Record: k.records[v.Hash], Certificate: slot.Certificate{Vote: vote(v), Signatures: votes},
		})
	}
	for _, v := range k.drafted {
		lies = append(lies, wire.Have{Vote: vote(v)})
	}
	for _, v := range k.proposed {
		lies = append(lies, wire.Vote{Vote: vote(v)})
	}
	for _, b := range slices.Concat(k.prepared, l.terms) {
		for _, lock := range x.locks(k, b, hashes) {
			promise := wire.Promise{Ref: at(b), Lock: lock}
			if lock != nil {
				promise.Locked = &wire.Locked{QC: x.qcOf(k, *lock), Record: k.records[lock.Hash]}
			}
			lies = append(lies, promise)
		}
	}
	return append(lies, x.auditLies(k)...)
}

// qcOf is the best QC that there are HAVEs for, with those of the liar and of strangers that the
// record lists, who are the liar, too. It may be no quorum's.
func (x *explorer) qcOf(k knowledge, v wire.Lock) wire.QC {
	at := x.liar.ref
	at.Ballot = v.Ballot
	have := slot.Vote{Ref: at, Hash: v.Hash}.Append(nil)
	haves := slices.Clone(k.haves[v])
	for _, e := range slices.Concat(x.liar.electors, k.records[v.Hash].Electors()) {
		if i := slices.Index(x.ids, e.Peer); (i < 0 || i == x.liar.at) && !slices.ContainsFunc(haves, of(e.Peer)) {
			sig := labSign(e.Peer, slot.SignedBytes(slot.TypeHave, x.rules.Run, e.Peer, e.Incarnation, have))
			haves = append(haves, wire.SignedHave{Peer: e.Peer, Incarnation: e.Incarnation, Ballot: v.Ballot, Sig: sig})
		}
	}
	slices.SortFunc(haves, func(a, b wire.SignedHave) int { return cmp.Compare(a.Peer, b.Peer) })
	return wire.QC{Ballot: v.Ballot, Hash: v.Hash, Haves: haves}
}

func of(p slot.PeerID) func(wire.SignedHave) bool {
	return func(h wire.SignedHave) bool { return h.Peer == p }
}

// locks lists what a promise of the liar may say: none, or any record in any lower ballot, with or
// without a QC.
func (x *explorer) locks(k knowledge, ballot uint32, hashes []slot.Root) []*wire.Lock {
	locks := []*wire.Lock{nil}
	for b := range min(ballot, x.liar.tries) {
		for _, h := range hashes {
			locks = append(locks, &wire.Lock{Ballot: b, Hash: h})
		}
	}
	return locks
}

// inventGrounds lists the grounds of a draft: the liar's promise with any lock and those of some
// honest electors, or of none, with the QC of any lock that one of them names.
func (x *explorer) inventGrounds(k knowledge, ballot uint32, hashes []slot.Root) (all []wire.Grounds) {
	if ballot == 0 {
		return []wire.Grounds{{}}
	}
	at := x.liar.ref
	at.Ballot = ballot
	given := k.promises[ballot]
	for some := range 1 << len(given) {
		for _, lock := range x.locks(k, ballot, hashes) {
			own := x.sign(wire.Promise{Ref: at, Lock: lock})
			promises := []wire.Promised{{Peer: own.From, Incarnation: own.Incarnation, Lock: lock, Sig: own.Sig}}
			for i, p := range given {
				if some>>i&1 == 1 {
					promises = append(promises, p)
				}
			}
			slices.SortFunc(promises, func(a, b wire.Promised) int { return cmp.Compare(a.Peer, b.Peer) })
			all = append(all, wire.Grounds{Promises: promises})
			named := map[wire.Lock]bool{}
			for _, p := range promises {
				if p.Lock != nil && !named[*p.Lock] {
					named[*p.Lock] = true
					q := x.qcOf(k, *p.Lock)
					all = append(all, wire.Grounds{Promises: promises, QC: &q})
				}
			}
		}
	}
	return all
}

// forgetGrounds drops the grounds of a draft that was taken: they have done their work. After that
// they only say whom to ask for the outcome.
func (l *liar) forgetGrounds(m *Machine) {
	if d := m.open.draft; l != nil && d != nil && d.Ballot < l.tries {
		lean := *d
		lean.Grounds = wire.Grounds{}
		m.open.draft = &lean
	}
}
