package membership

import (
	"bytes"
	"errors"
	"fmt"
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
	leader := l.leader()
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
// one certified with the votes of the other half. The honest electors are real machines, which say
// all that they say by themselves.
type twoBallots struct {
	*lab
	liars, honest []*labPeer
	sides         [2][]*labPeer // by ballot
	records       [2]slot.Record
}

// newTwoBallots prepares the two records, of which that of ballot lower has the lower hash.
func newTwoBallots(t *testing.T, n, lower int) *twoBallots {
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
	l.awaits(t, "the run settles", settled)
	w := &twoBallots{lab: l, liars: []*labPeer{l.peer(labName(leader()))}}
	for _, p := range l.peers {
		switch {
		case p == w.liars[0]:
		case p.id != senior && len(w.liars) <= l.rules.Liars(n):
			w.liars = append(w.liars, p)
		default:
			w.honest = append(w.honest, p)
		}
	}
	l.filters = []*labFilter{{left: -1}} // nobody hears anybody
	w.sides = [2][]*labPeer{w.honest[:len(w.honest)/2], w.honest[len(w.honest)/2:]}
	m := l.peers[0].m
	for i := 0; i < 2 || bytes.Compare(hashOf(w.records[lower]), hashOf(w.records[1-lower])) > 0; i++ {
		stranger := slot.Member{Peer: labID(fmt.Sprint("X", i)), Incarnation: 1}
		w.records[i%2] = m.chain.Settle(slot.Record{
			Run: l.rules.Run, Height: m.chain.Height() + 1, Kind: slot.Members, Prev: m.chain.TipHash(),
			Slot: m.chain.Tip().Slot, StateRoot: m.model.state.root, Work: m.chain.Tip().Work,
		}, chain.Turnover{Listed: with(m.chain.Members(), stranger)})
	}
	return w
}

func hashOf(r slot.Record) []byte { h := r.Hash(); return h[:] }

// signatures lists those of the liars and of one side under a body. An honest elector's is there if
// it has said so.
func (w *twoBallots) signatures(t *testing.T, ballot int, b wire.Body) (msgs []wire.Message) {
	t.Helper()
	for _, p := range slices.Concat(w.liars, w.sides[ballot]) {
		msg := labSigned(p, b)
		said := func(m wire.Message) bool { return m.From == p.id && bytes.Equal(m.Sig, msg.Sig) }
		if !slices.Contains(w.liars, p) && !slices.ContainsFunc(w.heard, said) {
			t.Fatalf("%s has not said %s", p.name, wire.TypeName(b.Type()))
		}
		msgs = append(msgs, msg)
	}
	slices.SortFunc(msgs, func(a, b wire.Message) int { return cmpPeer(a.From, b.From) })
	return msgs
}

// draft is the draft of a ballot: that of ballot 1 stands on the promises of the liars, which deny
// their votes, and of its side.
func (w *twoBallots) draft(t *testing.T, ballot int) wire.Draft {
	t.Helper()
	d := draftOf(uint32(ballot), w.records[ballot], nil)
	if ballot > 0 {
		w.tell(t, ballot, wire.Retry{Ref: d.Ref})
		for _, m := range w.signatures(t, ballot, wire.Promise{Ref: d.Ref}) {
			d.Grounds.Promises = append(d.Grounds.Promises,
				wire.Promised{Peer: m.From, Incarnation: m.Incarnation, Sig: m.Sig})
		}
	}
	return d
}

// tell lets the leader of the lies say something to the side of a ballot.
func (w *twoBallots) tell(t *testing.T, ballot int, bodies ...wire.Body) {
	t.Helper()
	for _, p := range w.sides[ballot] {
		for _, b := range bodies {
			if err := p.step(labSigned(w.liars[0], b)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// lie has the record of a ballot certified with the votes of its side. The machines of this side
// restart after each of their words if they shall.
func (w *twoBallots) lie(t *testing.T, ballot int, restart func()) {
	t.Helper()
	d := w.draft(t, ballot)
	restart()
	w.tell(t, ballot, d)
	restart()
	q := wire.QC{Ballot: d.Ballot, Hash: d.Hash}
	for _, m := range w.signatures(t, ballot, wire.Have{Vote: d.Vote}) {
		q.Haves = append(q.Haves, wire.SignedHave{
			Peer: m.From, Incarnation: m.Incarnation, Ballot: d.Ballot, Sig: m.Sig,
		})
	}
	w.tell(t, ballot, d, wire.Propose{Vote: d.Vote, QC: &q})
	restart()
	sigs := map[slot.PeerID][]byte{}
	for _, m := range w.signatures(t, ballot, wire.Vote{Vote: d.Vote}) {
		sigs[m.From] = m.Sig
	}
	w.tell(t, ballot, wire.Commit{Record: d.Record, Certificate: certificate(d.Vote, sigs)})
	restart()
}

// lieAndMeet has both records certified while nobody hears anybody else. Then the liars are gone,
// and the others meet.
func (w *twoBallots) lieAndMeet(t *testing.T, restart func()) {
	t.Helper()
	w.lie(t, 0, func() {})
	w.lie(t, 1, restart)
	for _, p := range w.liars {
		p.crash()
		p.gone = true
	}
	w.filters = nil
	w.connect()
}

// restart lets all machines of ballot 1 restart.
func (w *twoBallots) restart() {
	for _, p := range w.sides[1] {
		p.start()
	}
}

// agree says whether all honest peers are on the record of the lower hash.
func (w *twoBallots) agree(lower int) bool {
	return !slices.ContainsFunc(w.honest, func(p *labPeer) bool {
		return p.m.chain.Hash(w.records[0].Height) != w.records[lower].Hash()
	})
}

// convicted counts the liars that a peer has evicted.
func (w *twoBallots) convicted(p *labPeer) (n int) {
	for _, q := range w.liars {
		n += btoi(p.m.evidence.evicted(memberKey{q.id, q.inc}))
	}
	return n
}

// Two records are certified at one height, in two ballots, which takes more liars than a run
// withstands. Only one side has seen the promises by which they denied their votes, and it has
// restarted since. All honest peers end on the record of the lower hash, convict all that lied and
// nobody else, and go on. Where the grounds are not kept (m16), nobody is convicted. (BYZANTINE A7)
func TestTwoCertificatesInTwoBallots(t *testing.T) {
	for _, n := range []int{4, 7} {
		for lower := range 2 {
			w := newTwoBallots(t, n, lower)
			w.lieAndMeet(t, w.restart)
			w.awaits(t, fmt.Sprintf("%d electors, ballot %d: they go on together", n, lower), func() bool {
				return w.agree(lower) && !slices.ContainsFunc(w.honest, func(p *labPeer) bool {
					return p.m.chain.Tip().Slot < w.records[0].Slot+3 || w.convicted(p) < len(w.liars)
				})
			})
			for _, p := range w.honest {
				if len(p.m.evidence.evictions) != len(w.liars) {
					t.Errorf("%d electors: %s evicts %v", n, p.name, p.m.evidence.evictions)
				}
			}
		}
	}
	t.Run("grounds not kept (m16)", func(t *testing.T) {
		w := newTwoBallots(t, 4, 0)
		for _, p := range w.honest {
			p.keep = forgets[wire.EntryGrounds]
		}
		w.lieAndMeet(t, w.restart)
		w.awaits(t, "they meet", func() bool { return w.agree(0) })
		w.rests(time.Minute)
		for _, p := range w.honest {
			if c := w.convicted(p); c > 0 {
				t.Errorf("%s convicts %d: the test does not see what is planted", p.name, c)
			}
		}
	})
}

// A certificate of the same height that shows up more than 64 heights later moves nobody, however
// low its hash is: an operator decides, who is told how.
func TestASiblingOfLongAgo(t *testing.T) {
	t.Parallel()
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
