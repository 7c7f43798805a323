package chain

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// signedWorld grows a chain of records that real keys have signed: peers train, come and go.
type signedWorld struct {
	*Chain
	keys  map[slot.PeerID]ed25519.PrivateKey
	peers []slot.PeerID // members now, in the order in which they came
	made  int
	mute  bool // its signatures are noise that nobody checks
}

const worldElements = 1 << 20

func signedRules(byzantine bool, every uint64) Rules {
	return Rules{
		Run: slot.Hash([]byte("signed")), Byzantine: byzantine, MinPeers: 1, MaxStaleness: 1, SummaryEvery: every,
		MaxWeightRatio: 8, Fragments: []uint64{worldElements}, StartPeers: 1, PartSteps: 100,
		Pace: PaceRules{InnerSteps: 50},
	}
}

func newSignedWorld(rules Rules) *signedWorld {
	w := &signedWorld{Chain: New(rules, slot.Root{}), keys: map[slot.PeerID]ed25519.PrivateKey{}}
	w.peers = []slot.PeerID{w.newPeer()}
	w.append(w.SettleFork(slot.Record{Kind: slot.Fork}, Turnover{Listed: w.listed()}))
	return w
}

func verifyEd25519(p slot.PeerID, data, sig []byte) bool {
	return len(p) == idLength && ed25519.Verify(ed25519.PublicKey(p[:ed25519.PublicKeySize]), data, sig)
}

const idLength = 38 // of a libp2p ID of an Ed25519 key

func (w *signedWorld) newPeer() slot.PeerID {
	w.made++
	seed := slot.Hash(fmt.Append(nil, "key ", w.made))
	key := ed25519.NewKeyFromSeed(seed[:])
	p := slot.PeerID(append(slices.Clone(key.Public().(ed25519.PublicKey)), "padded"...))
	w.keys[p] = key
	return p
}

func (w *signedWorld) listed() (ms []slot.Member) {
	for _, p := range slices.Sorted(slices.Values(w.peers)) {
		ms = append(ms, slot.Member{Peer: p, Incarnation: 1})
	}
	return ms
}

// append certifies a record with as few signatures as are a quorum, and appends it.
func (w *signedWorld) append(r slot.Record) {
	next := w.Next()
	r.Run, r.Height, r.Prev = w.rules.Run, next.Height, next.Prev
	r.StateRoot = slot.Hash(fmt.Append(nil, "state ", r.Slot))
	if r.Kind != slot.Fork {
		r.Work = w.WorkAfter(r.Kind, r.Contributions)
	}
	verify := verifyEd25519
	if w.mute {
		verify = trusting
	}
	if err := w.Extend(wire.Commit{Record: r, Certificate: w.certify(r)}, verify); err != nil {
		panic(err)
	}
}

func trusting(slot.PeerID, []byte, []byte) bool { return true }

// sign signs as a peer does, or makes noise of a signature's length.
func (w *signedWorld) sign(p slot.PeerID, data []byte) []byte {
	if !w.mute {
		return ed25519.Sign(w.keys[p], data)
	}
	a := slot.Hash(data)
	b := slot.Hash(a[:])
	return append(a[:], b[:]...)
}

func (w *signedWorld) certify(r slot.Record) slot.Certificate {
	t, voters := slot.TypeVote, w.Electorate()
	if r.Kind == slot.Fork {
		t, voters = slot.TypeFork, r.Electors()
	}
	cert := slot.Certificate{Vote: slot.Vote{Ref: slot.Ref{Height: r.Height, Prev: r.Prev}, Hash: r.Hash()}}
	for _, m := range voters {
		if r.Kind != slot.Fork && len(cert.Signatures) >= w.rules.Votes(len(voters)) {
			break
		}
		data := slot.SignedBytes(t, r.Run, m.Peer, m.Incarnation, cert.Vote.Append(nil))
		cert.Signatures = append(cert.Signatures, slot.Signature{Peer: m.Peer, Sig: w.sign(m.Peer, data)})
	}
	return cert
}

// step appends a step that all members contribute to, as far as newcomers may, with the members
// that are now in peers.
func (w *signedWorld) step() {
	s := w.OpenSlot()
	r := slot.Record{Kind: slot.Step, Slot: s, Usual: w.UsualWeight()}
	for i, m := range w.Members() {
		r.Contributions = append(r.Contributions, slot.Offer{
			Peer: m.Peer, Slot: s, Seq: w.SpentSeq(m.Peer) + 1, Base: s - 1, Weight: 1 + uint64(i),
			Steps: 50, StepTime: 900, Root: slot.Hash(fmt.Append(nil, s, i)), NormSq: 1.5 * float64(s),
		})
	}
	r.Contributions = w.WithinShare(r.Contributions)
	all, n := slot.NewBitmap(len(r.Contributions)), uint64(len(w.Members()))
	for i := range r.Contributions {
		all.Set(i)
	}
	for i := range n {
		r.Segments = append(r.Segments, slot.Segment{
			Range:        slot.Range{Begin: i * worldElements / n, End: (i + 1) * worldElements / n},
			Contributors: all, Root: slot.Hash(fmt.Append(nil, "segment", s, i)),
		})
	}
	turn := Turnover{Listed: w.listed()}
	if able := w.Candidates(w.Settle(r, turn)); len(able) > 0 {
		turn.Seat = able[0].Peer
	}
	w.append(w.Settle(r, turn))
}

// members appends a record that lists the peers that there are now.
func (w *signedWorld) members() {
	w.append(w.settled())
}

func (w *signedWorld) settled() slot.Record {
	return w.Settle(slot.Record{Kind: slot.Members, Slot: w.Tip().Slot}, Turnover{Listed: w.listed()})
}

// fork has the members that are peers now go on without the others.
func (w *signedWorld) fork() {
	var forkers []slot.Member
	for _, m := range w.Members() {
		if slices.Contains(w.peers, m.Peer) {
			forkers = append(forkers, m)
		}
	}
	w.append(w.SettleFork(slot.Record{
		Kind: slot.Fork, Slot: w.Tip().Slot, Work: w.WorkOfFork(forkers),
	}, Turnover{Listed: forkers}))
}

// steps runs slots up to a height.
func (w *signedWorld) steps(height uint64) {
	for w.Height() < height {
		w.step()
	}
}

// churned is a world after some slots.
func churned(byzantine bool, slots, most, period int) *signedWorld {
	w := newSignedWorld(signedRules(byzantine, 16))
	w.churn(slots, most, period, func() {})
	return w
}

// churn runs slots with a join and a loss every period.
func (w *signedWorld) churn(slots, most, period int, each func()) {
	for i := range slots {
		switch {
		case len(w.peers) < most && i%period == 0, len(w.peers) < most && i < 4*most && i%4 == 0:
			w.peers = append(w.peers, w.newPeer())
		case len(w.peers) == most && i%period == period/2:
			w.peers = w.peers[1:] // the oldest one is lost
			w.members()
		}
		w.step()
		each()
	}
}

// opened sends what a chain holds to a newcomer.
func opened(c *Chain, pin slot.Root) (*Chain, error) {
	p := *c.Past()
	p.Pin = slot.Root{}
	n, err := Open(c.rules, pin, p, c.Commits()[:p.Height+1-p.Floor], verifyEd25519)
	if err != nil {
		return nil, err
	}
	for _, k := range c.Above(n.Height()) {
		if err := n.Extend(k, verifyEd25519); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// A chain that is pruned again and again accepts the records that one with all records accepts, and
// amounts to the same; and so does that of a newcomer.
func TestPrunedChainIsTheSame(t *testing.T) {
	for _, byzantine := range []bool{false, true} {
		t.Run(fmt.Sprint("byzantine ", byzantine), func(t *testing.T) {
			w := newSignedWorld(signedRules(byzantine, 16))
			pruned := New(w.rules, slot.Root{})
			prunings := 0
			w.churn(400, 6, 20, func() {
				for _, k := range w.Above(pruned.Height()) {
					if err := pruned.Extend(k, verifyEd25519); err != nil {
						t.Fatal(err)
					}
				}
				if _, ok := pruned.Prune(0); ok {
					prunings++
					sameState(t, "pruned", w.Chain, pruned)
				}
			})
			if prunings < 10 || pruned.Floor() == 0 || len(pruned.Commits()) > MaxSiblingAge+2*16+40 {
				t.Fatalf("pruned %d times, %d records are held above height %d", prunings, len(pruned.Commits()),
					pruned.Floor())
			}
			n, err := opened(pruned, slot.Root{})
			if err != nil {
				t.Fatal(err)
			}
			sameState(t, "newcomer", w.Chain, n)
			sameState(t, "taken back", w.UpTo(n.Start()+9), n.UpTo(n.Start()+9))
			again, err := Resume(w.rules, slot.Root{}, pruned.Past(), pruned.Commits())
			if err != nil {
				t.Fatal(err)
			}
			sameState(t, "resumed", w.Chain, again)
			w.step()
			for _, c := range []*Chain{pruned, n, again} {
				if err := c.Extend(w.Commit(w.Height()), verifyEd25519); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func sameState(t *testing.T, name string, a, b *Chain) {
	t.Helper()
	if a.TipHash() != b.TipHash() || !bytes.Equal(a.state.append(nil), b.state.append(nil)) ||
		fmt.Sprint(a.recent) != fmt.Sprint(b.recent) {
		t.Fatalf("%s: another state at height %d", name, a.Height())
	}
	if h := a.Height() / 2; a.Floor() == 0 { // it holds all records
		shared := func(k wire.Commit) bool { return len(k.Record.Members) > 1 }
		if b.SharedSince(h) != slices.ContainsFunc(a.Above(h), shared) || b.Founding() != a.Hash(1) {
			t.Fatalf("%s: other members or another founding since height %d", name, h)
		}
	}
}

// No record is valid with another summary than that of the chain, or without one where it is due.
func TestSummaryIsChecked(t *testing.T) {
	w := churned(false, 8, 3, 20)
	w.steps(15)
	good := w.settled()
	next := w.Next()
	good.Run, good.Height, good.Prev, good.Work = w.rules.Run, next.Height, next.Prev, w.Tip().Work
	if good.Summary.IsZero() || w.Check(good, 0) != nil {
		t.Fatalf("record %d with summary %s: %v", good.Height, good.Summary.Short(), w.Check(good, 0))
	}
	for _, bad := range []slot.Root{{}, slot.Hash(nil)} {
		r := good
		r.Summary = bad
		if err := w.Check(r, 0); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "summary") {
			t.Errorf("summary %s: %v", bad.Short(), err)
		}
	}
	w.append(good)
	early := w.settled()
	if !early.Summary.IsZero() {
		t.Errorf("a summary at height %d", w.Height()+1)
	}
}

// Whatever a liar changes in what it gives a newcomer is found out.
func TestOpenRefuses(t *testing.T) {
	w := churned(false, 150, 5, 12)
	if _, ok := w.Prune(0); !ok {
		t.Fatal("not pruned")
	}
	p := *w.Past()
	commits := w.Commits()[:p.Height+1-p.Floor]
	relink := func(i int, change func(*wire.Link)) func(*wire.Past, *[]wire.Commit) {
		return func(p *wire.Past, _ *[]wire.Commit) {
			links := readLinks(t, w.rules.Run, *p)
			change(&links[i])
			p.Links = appendLinks(w.rules.Run, links)
		}
	}
	last := len(p.Links) - 1
	for name, change := range map[string]func(*wire.Past, *[]wire.Commit){
		"a link left out":        func(p *wire.Past, _ *[]wire.Commit) { p.Links = slices.Delete(p.Links, 3, 4) },
		"the last link left out": func(p *wire.Past, _ *[]wire.Commit) { p.Links = p.Links[:last] },
		"no link":                func(p *wire.Past, _ *[]wire.Commit) { p.Links = nil },
		"a link cut short":       func(p *wire.Past, _ *[]wire.Commit) { p.Links[2] = p.Links[2][:40] },
		"another member":         relink(last, func(l *wire.Link) { l.Head.Record.Members[0].Incarnation++ }),
		"too few signatures": relink(last, func(l *wire.Link) {
			l.Certificate.Signatures = l.Certificate.Signatures[2:]
		}),
		"a twin of a link": relink(5, func(l *wire.Link) {
			l.Head.Record.StateRoot[0]++
			w.resign(l)
		}),
		"another signature": relink(4, func(l *wire.Link) { l.Certificate.Signatures[0].Sig[0]++ }),
		"another founding":  relink(0, func(l *wire.Link) { l.Head.Record.Kind = slot.Members }),
		"another summary":   func(p *wire.Past, _ *[]wire.Commit) { p.Summary = append(slices.Clone(p.Summary), 0) },
		"a byte of the summary": func(p *wire.Past, _ *[]wire.Commit) {
			p.Summary = slices.Clone(p.Summary)
			p.Summary[8+64+7]++
		},
		"a record left out":    func(_ *wire.Past, cs *[]wire.Commit) { *cs = slices.Delete(*cs, 2, 3) },
		"a short window":       func(p *wire.Past, cs *[]wire.Commit) { p.Floor++; *cs = (*cs)[1:] },
		"another record below": func(_ *wire.Past, cs *[]wire.Commit) { (*cs)[2].Record.Usual++ },
		"another record above": func(_ *wire.Past, cs *[]wire.Commit) { (*cs)[len(*cs)-1].Record.Work++ },
		"no summary in the record": func(_ *wire.Past, cs *[]wire.Commit) {
			(*cs)[len(*cs)-1].Record.Summary = slot.Root{}
		},
	} {
		q, cs := p, slices.Clone(commits)
		q.Links = nil
		for _, b := range p.Links {
			q.Links = append(q.Links, slices.Clone(b))
		}
		change(&q, &cs)
		if _, err := Open(w.rules, slot.Root{}, q, cs, verifyEd25519); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	if _, err := Open(w.rules, slot.Root{}, p, commits, verifyEd25519); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

func readLinks(t testing.TB, run slot.Root, p wire.Past) (links []wire.Link) {
	t.Helper()
	_, err := readPast(run, p, func(l wire.Link) error {
		l.Head.Record.Members = slices.Clone(l.Head.Record.Members)
		links = append(links, l)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return links
}

// appendLinks encodes links as differences again, whatever they say by now.
func appendLinks(run slot.Root, links []wire.Link) (all [][]byte) {
	before := slot.Genesis(run)
	for _, l := range links {
		all, before = append(all, l.Append(nil, before)), l.Head.Record
	}
	return all
}

// resign has those that signed a link sign what it says now.
func (w *signedWorld) resign(l *wire.Link) {
	l.Certificate.Hash = l.Head.Hash()
	for i, s := range l.Certificate.Signatures {
		data := slot.SignedBytes(slot.TypeVote, w.rules.Run, s.Peer, 1, l.Certificate.Vote.Append(nil))
		l.Certificate.Signatures[i].Sig = ed25519.Sign(w.keys[s.Peer], data)
	}
}

// The pin of an old ticket holds if its record is a link, and a chain that had its pin keeps that.
func TestPinsOutliveTheirRecords(t *testing.T) {
	w := newSignedWorld(signedRules(false, 16))
	link, between := w.Founding(), slot.Root{}
	own := New(w.rules, slot.Root{})
	w.churn(200, 5, 12, func() {
		if newest := hashOfNewestLink(w.Chain); w.Height() > 40 && newest != w.TipHash() && between.IsZero() {
			link, between = newest, w.TipHash()
			own.pin, own.pinned = between, false
		}
		for _, k := range w.Above(own.Height()) {
			own.Push(k)
		}
		own.Prune(0)
	})
	if own.Floor() < 50 || !own.Pinned() {
		t.Fatalf("records up to height %d are pruned, pinned: %v", own.Floor(), own.Pinned())
	}
	back, err := Resume(w.rules, between, own.Past(), own.Commits())
	if err != nil || !back.Pinned() || !back.UpTo(back.Start()).Pinned() {
		t.Errorf("taken from disk: %v", err)
	}
	for pin, want := range map[slot.Root]bool{link: true, between: false, slot.Hash(nil): false, w.TipHash(): true} {
		n, err := opened(own, pin)
		if err != nil || n.Pinned() != want {
			t.Errorf("a newcomer with pin %s: %v, %v", pin.Short(), n.Pinned(), err)
		}
	}
}

func hashOfNewestLink(c *Chain) (hash slot.Root) {
	newest := uint64(0)
	for h, l := range c.linkHashes() {
		if h >= newest {
			newest, hash = h, l
		}
	}
	return hash
}

// Where a crash is all that may happen, a chain is not pruned above the record that a provisional
// branch parted at: it may be given up however old it is.
func TestBranchesKeepWhereTheyParted(t *testing.T) {
	w := churned(false, 60, 5, 100)
	parted := w.Height()
	w.peers = w.peers[3:]
	w.fork()
	w.churn(300, 1, 1000, func() { w.Prune(0) })
	if w.Start() > parted || w.BranchKind() != IsBranch {
		t.Errorf("a branch that parted at height %d is pruned up to %d", parted, w.Start())
	}
}

// Of four members one forks alone, and the others go on, until they have forgotten where. It came
// from them by a fork, and not they from it. Nor from another one that forked alone, as that one
// has no certificate of the others, whatever its summary says of itself: a member that shows a
// forged past moves nobody.
func TestForkedFrom(t *testing.T) {
	w := churned(false, 60, 4, 1000)
	made := w.made
	for _, c := range []struct{ forks, goOn int }{{1, 3}, {2, 2}} {
		side := func(peers []slot.PeerID, slots int) *signedWorld {
			made += 100
			s := &signedWorld{Chain: w.UpTo(w.Height()), keys: w.keys, peers: slices.Clone(peers), made: made}
			if len(peers) < c.goOn || peers[0] != w.peers[0] {
				s.fork()
			} else {
				s.members()
			}
			s.churn(slots, 4, 20, func() {})
			return s
		}
		alone, others := side(w.peers[4-c.forks:], 20), side(w.peers[:c.goOn], 300)
		twin := side(w.peers[:c.goOn], 300) // of the others, who have agreed on two chains
		liar := side(w.peers[1:2], 0)
		liar.provisional = nil
		liar.steps(others.Height())
		for _, o := range []*signedWorld{others, liar} {
			if _, ok := o.Prune(0); !ok || o.Start() <= w.Height() || o.BranchKind() != IsRun {
				t.Fatalf("a chain of %d records that parted at height %d is not pruned: %v", o.Height(), w.Height(), ok)
			}
		}
		forged := liar.beginning().state
		forged.provisional = nil
		liar.past.Summary = forged.append(nil)
		met, err := opened(others.Chain, slot.Root{})
		if err != nil {
			t.Fatal(err)
		}
		lie, err := opened(liar.Chain, slot.Root{})
		if err != nil {
			t.Fatal(err)
		}
		if lie.BranchKind() != IsRun {
			t.Fatal("the lie does not say that it is the run")
		}
		got := []bool{
			alone.ForkedFrom(met), met.ForkedFrom(alone.Chain), alone.ForkedFrom(lie), met.ForkedFrom(twin.Chain),
		}
		if want := []bool{true, false, false, false}; !slices.Equal(got, want) {
			t.Errorf("%d forked, %d went on: %v, want %v", c.forks, c.goOn, got, want)
		}
	}
}

// Where members may lie, half of four electors fork at height 100 and go on without the others, who
// never come back. What they keep stays small, too: a branch that has grown by more than
// MaxSiblingAge is not given up without an operator. Without this they keep all records for ever.
func TestProvisionalChainsStaySmall(t *testing.T) {
	w := churned(true, 90, 4, 1000)
	w.steps(100)
	w.peers = w.peers[:2]
	w.fork()
	held := 0
	w.churn(300, 2, 1000, func() {
		if w.Prune(0); w.Height() == 100+MaxSiblingAge && w.Start() > 100 {
			t.Errorf("records above %d are kept, while the branch may be given up for another one", w.Start())
		}
		held = max(held, len(w.Commits()))
	})
	most := MaxSiblingAge + 3*16 + newRecent(w.rules).window
	if w.BranchKind() != IsProvisional || w.Start() < w.Height()-MaxSiblingAge-16 || held > most {
		t.Errorf("branch %v at height %d: it can be taken back to %d, and held %d records", w.BranchKind(), w.Height(),
			w.Start(), held)
	}
}
