package membership

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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
	electors []slot.Member
	records  []slot.Record
	twice    bool // the honest machines give HAVE twice in a ballot; see unchecked

	lies map[string][]int // parcels, by what was said
}

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
}

// newLiarsWorld makes a world of four electors, one of which lies: the first leader.
func newLiarsWorld(t *testing.T, rules chain.Rules, tries uint32) (*explorer, *world) {
	rules.StartPeers = 4
	x, w := newExplorerOf(t, rules, 4, 0, 1)
	m := x.locals[w.peers[0]].m
	first := m.open.leader(0).Peer
	l := &liar{
		at: slices.Index(x.ids, first), ref: m.open.at(0), electors: m.chain.Electorate(), tries: tries,
		lies: map[string][]int{},
	}
	for _, name := range []string{"X", "Y"} {
		r := slot.Record{
			Run: x.rules.Run, Kind: slot.Members, Height: l.ref.Height, Prev: l.ref.Prev, Slot: m.chain.Tip().Slot,
			StateRoot: m.model.state.root, Work: m.chain.WorkAfter(slot.Members, nil),
		}
		listed := append(slices.Clone(m.chain.Members()), slot.Member{Peer: labID(name), Incarnation: 1})
		r = m.chain.Settle(r, chain.Turnover{Listed: listed})
		if err := m.chain.Check(r); err != nil {
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
	x.liar, x.at = l, arrangements
	return x, w
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
	for id, p := range x.parcels {
		at := placeOf(p.msg.Body)
		if !w.has(id) || at.Height != x.liar.ref.Height || at.Prev != x.liar.ref.Prev {
			continue
		}
		b = append(b, byte(id), byte(id>>8))
		from, inc, sig := p.msg.From, p.msg.Incarnation, p.msg.Sig
		switch m := p.msg.Body.(type) {
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
	}
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
		if certified != nil && certified.Hash != l.Hash {
			x.fail(w, fmt.Sprintf("A1: %s in ballot %d and %s in ballot %d can both be certified",
				certified.Hash.Short(), certified.Ballot, l.Hash.Short(), l.Ballot))
		}
		certified = &l
	}
}

// tryLies is what the liar may say to an honest elector.
func (x *explorer) tryLies(w *world, p int, try func(int, input, func() string)) {
	if x.liar == nil {
		return
	}
	k, key := x.knows(w)
	lies, ok := x.liar.lies[key]
	if !ok {
		for _, b := range x.inventLies(k) {
			if id, ok := x.internParcel(parcel{to: anybody, msg: x.sign(b)}); ok {
				lies = append(lies, id)
			}
		}
		x.liar.lies[key] = lies
	}
	for _, id := range lies {
		try(p, input{inParcel, id}, func() string {
			return fmt.Sprintf("the liar %s to %s: %s", labName(x.ids[x.liar.at]), labName(x.ids[p]),
				describe(x.parcels[id].msg.Body))
		})
	}
}

func (x *explorer) inventLies(k knowledge) (lies []wire.Body) {
	l := x.liar
	at := func(b uint32) slot.Ref { r := l.ref; r.Ballot = b; return r }
	vote := func(k wire.Lock) slot.Vote { return slot.Vote{Ref: at(k.Ballot), Hash: k.Hash} }
	hashes := slices.SortedFunc(maps.Keys(k.records), func(a, b slot.Root) int { return slices.Compare(a[:], b[:]) })
	for b := range l.tries {
		grounds := x.inventGrounds(k, b, hashes)
		if b > 0 {
			lies = append(lies, wire.Retry{Ref: at(b)})
		}
		for _, h := range hashes {
			v := wire.Lock{Ballot: b, Hash: h}
			for _, g := range grounds {
				if g.QC == nil || g.QC.Hash == h {
					drafted := wire.Drafted{Record: k.records[h], Grounds: g}
					lies = append(lies, wire.Draft{Vote: vote(v), Drafted: drafted})
				}
			}
			q := x.qcOf(k, v)
			lies = append(lies, wire.Propose{Vote: vote(v), QC: &q})
		}
	}
	for v, votes := range k.votes {
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
	for _, b := range k.prepared {
		for _, lock := range x.locks(k, b, hashes) {
			promise := wire.Promise{Ref: at(b), Lock: lock}
			if lock != nil {
				promise.Locked = &wire.Locked{QC: x.qcOf(k, *lock), Record: k.records[lock.Hash]}
			}
			lies = append(lies, promise)
		}
	}
	return lies
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

// walk follows random schedules from a world, each up to a number of steps: faults that lie deep
// are found sooner than breadth first.
func (x *explorer) walk(start *world, r *rand.Rand, steps int, until time.Time) {
	x.deliverAtOnce(start, func(t slot.MessageType) bool { return x.at[t] })
	for x.fault == "" && time.Now().Before(until) {
		for w, i := start, 0; i < steps && x.fault == ""; i++ {
			var options []func() *world
			x.options(w, func(p int, in input, by func() string) {
				options = append(options, func() *world { return x.follow(w, p, in, by) })
			})
			for next := (*world)(nil); next == nil && len(options) > 0; {
				pick := r.IntN(len(options))
				if next = options[pick](); next != nil {
					w = next
					x.worlds++
				}
				options = slices.Delete(options, pick, pick+1)
			}
		}
	}
}
