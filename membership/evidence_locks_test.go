package membership

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A VOTE and a PROMISE above it that hides it convict their elector, in whichever order they come
// and also as the grounds of a draft. Nothing that an honest elector signs convicts it.
func TestAPromiseThatDeniesAVote(t *testing.T) {
	vote, other := slot.Root{1}, slot.Root{2}
	lock := func(ballot uint32, h slot.Root) *wire.Lock { return &wire.Lock{Ballot: ballot, Hash: h} }
	for name, c := range map[string]struct {
		voted   uint32
		promise uint32
		lock    *wire.Lock
		prev    slot.Root // that the promise names, if not the tip
		denies  bool
	}{
		"no lock":                    {3, 4, nil, slot.Root{}, true},
		"a lower lock":               {3, 4, lock(2, other), slot.Root{}, true},
		"the same record, earlier":   {3, 9, lock(2, vote), slot.Root{}, true},
		"another lock of its ballot": {3, 4, lock(3, other), slot.Root{}, true},
		"the lock":                   {3, 4, lock(3, vote), slot.Root{}, false},
		"a higher lock":              {3, 6, lock(5, other), slot.Root{}, false},
		"a promise for its ballot":   {3, 3, nil, slot.Root{}, false},
		"a promise before it":        {3, 2, nil, slot.Root{}, false},
		"on another chain":           {3, 4, nil, slot.Root{7}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, promiseFirst := range []bool{false, true} {
				l := labOf(t, "ABCD")
				a, liar := l.peers[0], l.peers[3]
				at := a.m.chain.Next()
				at.Ballot = c.voted
				v := labSigned(liar, wire.Vote{Vote: slot.Vote{Ref: at, Hash: vote}})
				if at.Ballot = c.promise; !c.prev.IsZero() {
					at.Prev = c.prev
				}
				p := labSigned(liar, wire.Promise{Ref: at, Lock: c.lock})
				if e := evidenceOf(v, p); (checkEvidence(e, l.rules, labVerify) == nil) != c.denies {
					t.Fatalf("denies is %v", !c.denies)
				}
				said := []wire.Message{v, p}
				if promiseFirst {
					slices.Reverse(said)
				}
				for _, msg := range said {
					_ = a.step(msg)
				}
				if a.m.evidence.evicted(memberKey{liar.id, liar.inc}) != c.denies {
					t.Errorf("promise first %v: evicted is %v", promiseFirst, !c.denies)
				}
			}
		})
	}
}

// Everybody who is shown a draft sees the promises that it stands on.
func TestGroundsConvictALiar(t *testing.T) {
	l := labOf(t, "ABCD")
	leader := l.peer(labName(l.peers[0].m.open.leader(0).Peer))
	a, liar := l.aside(leader, 1), l.aside(leader, 2)
	at := a.m.chain.Next()
	vote := labSigned(liar, wire.Vote{Vote: slot.Vote{Ref: at, Hash: slot.Root{1}}})
	_ = a.step(vote)
	at.Ballot = 1
	promise := labSigned(liar, wire.Promise{Ref: at})
	draft := draftOf(at.Ballot, stepRecord(a.m, "A"), nil)
	draft.Proofs = l.proofs(draft.Record.Contributions)
	draft.Grounds.Promises = []wire.Promised{{Peer: liar.id, Incarnation: liar.inc, Sig: promise.Sig}}
	_ = a.step(labSigned(leader, draft)) // refused, and its proofs stand
	if !a.m.evidence.evicted(memberKey{liar.id, liar.inc}) {
		t.Error("the liar is not convicted")
	}
	if a.m.evidence.evicted(memberKey{leader.id, leader.inc}) {
		t.Error("the leader is convicted for what it shows")
	}
}

// What is not a vote and a promise of one life, signed by it, in this order, is no evidence.
func TestFalseDenials(t *testing.T) {
	l := labOf(t, "ABC")
	b, c := l.peers[1], l.peers[2]
	at := b.m.chain.Next()
	vote := labSigned(c, wire.Vote{Vote: slot.Vote{Ref: at, Hash: slot.Root{1}}})
	at.Ballot = 1
	promise := labSigned(c, wire.Promise{Ref: at})
	good := evidenceOf(vote, promise)
	if err := checkEvidence(good, l.rules, labVerify); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(e *wire.Evidence){
		"in the wrong order":  func(e *wire.Evidence) { e.First, e.Second = e.Second, e.First },
		"two promises":        func(e *wire.Evidence) { e.First = e.Second },
		"two votes":           func(e *wire.Evidence) { e.Second = e.First },
		"another's signature": func(e *wire.Evidence) { e.First.Sig = labSigned(b, vote.Body).Sig },
		"another's promise":   func(e *wire.Evidence) { e.Second.Sig = labSigned(b, promise.Body).Sig },
		"of another life":     func(e *wire.Evidence) { e.Incarnation++ },
		"said to be votes":    func(e *wire.Evidence) { e.Kind = slot.TypeVote },
		"a byte too many":     func(e *wire.Evidence) { e.Second.Body = append(bytes.Clone(e.Second.Body), 0) },
		"the vote was no VOTE": func(e *wire.Evidence) {
			e.First.Sig = labSigned(c, wire.Have(vote.Body.(wire.Vote))).Sig
		},
		"signatures exchanged": func(e *wire.Evidence) { e.First.Sig, e.Second.Sig = e.Second.Sig, e.First.Sig },
	} {
		e := good
		change(&e)
		if err := checkEvidence(e, l.rules, labVerify); !errors.Is(err, chain.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// twoBallots is a run in which more electors lie than it withstands. In ballot 0 they have a record
// certified with the votes of one half of the others; in ballot 1 they deny that, and have another
// one certified with the votes of the other half.
type twoBallots struct {
	*lab
	liars, honest []*labPeer
	sides         [2][]*labPeer // by ballot
	commits       [2]wire.Commit
	height        uint64
}

// liesInTwoBallots prepares the two certificates. dropIn is the ballot of the record that drops a
// liar, for its LEAVE: it decides which of the two has the lower hash.
func liesInTwoBallots(t *testing.T, n int, dropIn int) twoBallots {
	t.Helper()
	l := forkingLab(t, n, time.Hour)
	senior := slot.Senior(l.peers[0].m.chain.Electorate()).Peer
	leader := func() slot.PeerID { return l.peers[0].m.open.leader(0).Peer }
	settled := func() bool {
		return leader() != senior && !slices.ContainsFunc(l.peers, func(p *labPeer) bool {
			own := p.m.pledges.open
			return p.m.chain.Height() != l.peers[0].m.chain.Height() || !p.m.model.atTip() || own.Have != nil
		})
	}
	if !l.run(time.Minute, settled) {
		t.Fatal(l.show())
	}
	w := twoBallots{lab: l, liars: []*labPeer{l.peer(labName(leader()))}}
	for _, p := range l.peers {
		switch {
		case p == w.liars[0]:
		case p.id != senior && len(w.liars) <= l.rules.Liars(n):
			w.liars = append(w.liars, p)
		default:
			w.honest = append(w.honest, p)
		}
	}
	half := len(w.honest) / 2
	w.sides = [2][]*labPeer{w.honest[:half], w.honest[half:]}
	c := l.peers[0].m.chain
	w.height = c.Height() + 1
	for ballot, side := range w.sides {
		r := slot.Record{
			Run: l.rules.Run, Height: w.height, Kind: slot.Members, Prev: c.TipHash(), Slot: c.Tip().Slot,
			StateRoot: l.peers[0].m.model.state.root, Work: c.Tip().Work, Members: c.Members(),
		}
		if ballot == dropIn {
			out := w.liars[1].id
			r.Members = slices.DeleteFunc(slices.Clone(r.Members), func(e slot.Member) bool { return e.Peer == out })
		}
		w.commits[ballot] = w.certify(r, uint32(ballot), side)
	}
	return w
}

// certify certifies a record with the votes of the liars and of one side, as if these had voted.
func (w twoBallots) certify(r slot.Record, ballot uint32, side []*labPeer) wire.Commit {
	v := slot.Vote{Ref: slot.Ref{Height: r.Height, Prev: r.Prev, Ballot: ballot}, Hash: r.Hash()}
	sigs := map[slot.PeerID][]byte{}
	for _, p := range slices.Concat(w.liars, side) {
		sigs[p.id] = labSigned(p, wire.Vote{Vote: v}).Sig
	}
	return wire.Commit{Record: r, Certificate: certificate(v, sigs)}
}

// draft is the draft of ballot 1, on the promises of the liars and of the side that has not voted.
func (w twoBallots) draft(t *testing.T) wire.Message {
	t.Helper()
	r := w.commits[1].Record
	d := draftOf(1, r, nil)
	for _, m := range w.peers[0].m.chain.Electorate() {
		p := w.peer(labName(m.Peer))
		if slices.Contains(w.sides[0], p) {
			continue
		}
		sig := labSigned(p, wire.Promise{Ref: d.Ref}).Sig
		d.Grounds.Promises = append(d.Grounds.Promises, wire.Promised{Peer: p.id, Incarnation: p.inc, Sig: sig})
	}
	if out := w.liars[1]; slot.Find(r.Members, out.id) < 0 {
		m, _ := chain.FindMember(w.peers[0].m.chain.Members(), out.id, out.inc)
		leave := labSigned(out, wire.Leave{Since: m.Since})
		d.Attached.Leaves = []wire.SignedLeave{{
			Peer: out.id, Incarnation: out.inc, Leave: wire.Leave{Since: m.Since}, Sig: leave.Sig,
		}}
	}
	return labSigned(w.liars[0], d)
}

// lie shows each side its record. The draft of ballot 1 is taken, and its certificate comes after a
// restart.
func (w twoBallots) lie(t *testing.T) {
	t.Helper()
	draft := w.draft(t)
	for _, p := range w.liars {
		p.crash()
		p.gone = true
	}
	for ballot, side := range w.sides {
		for _, p := range side {
			if ballot == 1 {
				if err := p.step(draft); err != nil {
					t.Fatal(err)
				}
				p.crash()
				p.start()
			}
			c := w.commits[ballot]
			p.m.pledges.open.Vote = &wire.EntryVote{Ref: c.Certificate.Ref, Locked: wire.Locked{Record: c.Record}}
			if err := p.step(labSigned(w.liars[0], c)); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.connect()
}

// Two records are certified at one height, in two ballots, which takes more liars than a run
// withstands. Only one side has seen the promises by which they denied their votes, and it may
// have restarted since. All honest peers end on the record of the lower hash, convict all that lied
// and nobody else, and go on. (BYZANTINE A7, m16)
func TestTwoCertificatesInTwoBallots(t *testing.T) {
	lower := map[int]bool{}
	for _, n := range []int{4, 7} {
		for dropIn := range 2 {
			w := liesInTwoBallots(t, n, dropIn)
			chosen, slots := w.commits[0].Certificate.Hash, w.commits[0].Record.Slot
			if h := w.commits[1].Certificate.Hash; bytes.Compare(h[:], chosen[:]) < 0 {
				chosen = h
			}
			is := func(c wire.Commit) bool { return c.Certificate.Hash == chosen }
			lower[slices.IndexFunc(w.commits[:], is)] = true
			w.lie(t)
			convicts := func(p, liar *labPeer) bool { return p.m.evidence.evicted(memberKey{liar.id, liar.inc}) }
			agree := func() bool {
				return !slices.ContainsFunc(w.honest, func(p *labPeer) bool {
					return p.m.chain.Hash(w.height) != chosen || p.m.chain.Tip().Slot < slots+3 ||
						slices.ContainsFunc(w.liars, func(q *labPeer) bool {
							// who has left by that record needs not be convicted
							return !convicts(p, q) && slot.Find(p.m.chain.At(w.height).Members, q.id) >= 0
						})
				})
			}
			if !w.run(time.Minute, agree) {
				t.Fatalf("%d electors, dropped in %d: they do not go on together\n%s", n, dropIn, w.show())
			}
			for _, q := range w.peers {
				lied := slices.Contains(w.liars, q)
				if lied != slices.ContainsFunc(w.honest, func(p *labPeer) bool { return convicts(p, q) }) {
					t.Errorf("%d electors: %s lied is %v, and convicted is %v", n, q.name, lied, !lied)
				}
			}
		}
	}
	if len(lower) != 2 {
		t.Error("the record of the lower hash is always of the same ballot: the other case is not tested")
	}
}

// A certificate of the same height that shows up more than 64 heights later moves nobody, however
// low its hash is: an operator decides, who is told how.
func TestASiblingOfLongAgo(t *testing.T) {
	for _, late := range []bool{false, true} {
		l := forkingLab(t, 4, time.Hour)
		a, from := l.peers[0], uint64(8)
		l.run(5*time.Minute, func() bool { return a.m.chain.Height() > 100 })
		own := a.m.chain
		if !late {
			from = own.Height() - chain.MaxSiblingAge/2
		}
		sibling := func(height uint64) *forger {
			f := &forger{labPeer: l.peers[3], chain: own.UpTo(height), by: l.peers[1:3]}
			f.add(slot.Record{
				Kind: slot.Members, Slot: f.chain.Tip().Slot, Members: f.chain.Members(), Work: f.chain.Tip().Work,
			})
			return f
		}
		f := sibling(from)
		for ; !f.chain.Outranks(own); from++ {
			f = sibling(from)
		}
		f.serve(4*time.Second, nil)
		moved := a.m.chain.Has(f.chain.Height(), f.chain.TipHash())
		if moved == late || l.count(a.name, EventRefused) != map[bool]int{true: 1}[late] {
			t.Errorf("late %v: moved %v, refused it %d times\n%s", late, moved, l.count(a.name, EventRefused), l.show())
		}
		if late && !slices.ContainsFunc(l.log, func(line string) bool {
			return strings.Contains(line, "too many to be given up") && strings.Contains(line, "--pin")
		}) {
			t.Error("nobody is told what to do")
		}
	}
}

// FuzzContradicts reads what anybody may announce as evidence. It has one form, and one order.
func FuzzContradicts(f *testing.F) {
	at := slot.Ref{Height: 7, Prev: slot.Root{2}, Ballot: 1}
	vote, other := slot.Vote{Ref: at, Hash: slot.Root{1}}, slot.Vote{Ref: at, Hash: slot.Root{2}}
	f.Add(uint8(slot.TypeVote), vote.Append(nil), other.Append(nil))
	at.Ballot = 2
	for _, l := range []*wire.Lock{nil, {Ballot: 0, Hash: slot.Root{1}}, {Ballot: 1, Hash: slot.Root{1}}} {
		f.Add(uint8(slot.TypePromise), vote.Append(nil), wire.Promise{Ref: at, Lock: l}.Append(nil))
	}
	f.Fuzz(func(t *testing.T, kind uint8, first, second []byte) {
		e := wire.Evidence{Kind: slot.MessageType(kind), Peer: "a"}
		e.First.Body, e.Second.Body = first, second
		if contradicts(e, nil) != nil {
			return
		}
		for i, b := range [][]byte{first, second} {
			if body, err := wire.ParseBody(e.Types()[i], b); err != nil || !bytes.Equal(body.Append(nil), b) {
				t.Fatalf("%x: %v", b, err)
			}
		}
		e.First, e.Second = e.Second, e.First
		if contradicts(e, nil) == nil {
			t.Fatal("two forms of one evidence")
		}
	})
}
