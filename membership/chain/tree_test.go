package chain

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// sapling is a small tree of records, each named by its place; 0 is the record that the run is
// founded with.
type sapling struct {
	nodes    []node
	arrivals []int // the ends of the branches that are shown, in order
}

type node struct {
	parent  int
	fork    bool
	signers int
	work    uint64
	chain   *Chain // that ends with it
}

const saplingMembers = 5

// genSapling makes forks of two or three of five electors, certificates beside them, and work that
// forks reduce.
func genSapling(t *rapid.T) sapling {
	founded := New(Rules{Run: slot.Hash([]byte("run")), Fragments: []uint64{1}}, slot.Root{})
	s := sapling{nodes: []node{{parent: -1, chain: grown(founded, slot.Fork, saplingMembers, 100, 0)}}}
	for n := rapid.IntRange(3, 10).Draw(t, "records"); len(s.nodes) < n; {
		at := len(s.nodes) - 1
		if rapid.Bool().Draw(t, "elsewhere") {
			at = rapid.IntRange(0, len(s.nodes)-1).Draw(t, "parent")
		}
		p := s.nodes[at]
		n := node{parent: at, fork: rapid.Bool().Draw(t, "fork")}
		kind, members := slot.Members, saplingMembers
		n.work = p.work + rapid.Uint64Range(0, 4).Draw(t, "work")
		if n.fork {
			kind, members = slot.Fork, rapid.IntRange(2, 3).Draw(t, "signers")
			n.work = p.work - min(p.work, rapid.Uint64Range(0, 4).Draw(t, "penalty"))
			n.signers = min(members, len(p.chain.Electorate()))
		}
		n.chain = grown(p.chain, kind, members, 100+n.work, len(s.nodes))
		s.nodes = append(s.nodes, n)
	}
	places := make([]int, len(s.nodes))
	for i := range places {
		places[i] = i
	}
	s.arrivals = rapid.Permutation(places).Draw(t, "arrivals")
	return s
}

// grown appends a record, which salt tells from its siblings.
func grown(c *Chain, kind slot.Kind, members int, work uint64, salt int) *Chain {
	next := c.UpTo(c.Height())
	r := slot.Record{Run: c.rules.Run, Height: c.Height() + 1, Kind: kind, Prev: c.TipHash(), Work: work}
	r.StateRoot = slot.Hash(fmt.Append(nil, salt))
	for i := range members {
		r.Members = append(r.Members, slot.Member{Peer: slot.PeerID(fmt.Sprint("peer ", i)), Since: 1})
	}
	next.Push(wire.Commit{Record: r})
	return next
}

// descend is the choice as its definition has it: the best tip below a record, of those that are
// known.
func (s sapling) descend(known map[int]bool, at int) int {
	best, tip := -1, at
	for k, n := range s.nodes {
		if n.parent != at || !known[k] {
			continue
		}
		end := s.descend(known, k)
		if best < 0 || s.better(k, end, best, tip) {
			best, tip = k, end
		}
	}
	return tip
}

func (s sapling) better(a, aTip, b, bTip int) bool {
	x, y := s.nodes[a], s.nodes[b]
	switch {
	case x.fork != y.fork:
		return y.fork
	case x.fork && x.signers != y.signers:
		return x.signers > y.signers
	case x.fork && s.nodes[aTip].work != s.nodes[bTip].work:
		return s.nodes[aTip].work > s.nodes[bTip].work
	}
	p, q := x.chain.TipHash(), y.chain.TipHash()
	return bytes.Compare(p[:], q[:]) < 0
}

func (s sapling) path(to int) (path []int) {
	for ; to >= 0; to = s.nodes[to].parent {
		path = append(path, to)
	}
	return path
}

// chooser is a peer's way to choose: it is shown a chain, and says which one to be on.
type chooser func(own, shown *Chain) *Chain

// follow has a peer see all arrivals, and says where it is not on the branch that the known records
// call for.
func (s sapling) follow(choose chooser) error {
	own, known := s.nodes[0].chain, map[int]bool{}
	for _, to := range s.arrivals {
		for _, k := range s.path(to) {
			known[k] = true
		}
		if n := s.nodes[to]; !n.fork && own.Has(n.chain.Height()-1, n.chain.At(n.chain.Height()).Prev) &&
			own.Height()+1 == n.chain.Height() {
			own = n.chain // a certified successor of the tip is taken as it comes
		} else {
			own = choose(own, n.chain)
		}
		if want := s.nodes[s.descend(known, 0)].chain; own.TipHash() != want.TipHash() {
			return fmt.Errorf("after record %d is shown, the tip is %s at height %d, not %s at height %d", to,
				own.TipHash().Short(), own.Height(), want.TipHash().Short(), want.Height())
		}
	}
	return nil
}

func treeChooser() chooser {
	tree := &Tree{}
	return func(own, shown *Chain) *Chain {
		if better, _ := tree.Choose(own, shown, "other", "self"); better != nil {
			return better
		}
		return own
	}
}

// pairChooser compares two branches without regard to the others, and forgets the one that it
// leaves.
func pairChooser(own, shown *Chain) *Chain {
	if shown.Outranks(own) {
		return shown
	}
	return own
}

// The choice is a function of the records that are known, in whatever order they came.
func TestChoiceBetweenBranches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := genSapling(t).follow(treeChooser()); err != nil {
			t.Fatal(err)
		}
	})
}

// The property finds the fault that it is there for: tips that are compared in pairs, work and all,
// lead in circles.
func TestTipsComparedInPairsAreFound(t *testing.T) {
	saplings := rapid.Custom(genSapling)
	for i := range 5000 {
		if saplings.Example(i).follow(pairChooser) != nil {
			return
		}
	}
	t.Error("no order of arrivals misleads a peer that compares tips in pairs")
}

// Of any three successors the order is one without a circle.
func TestSuccessorsAreOrdered(t *testing.T) {
	successor := rapid.Custom(func(t *rapid.T) Successor {
		return Successor{
			Fork: rapid.Bool().Draw(t, "fork"), Signers: rapid.IntRange(0, 2).Draw(t, "signers"),
			Work: rapid.Uint64Range(0, 2).Draw(t, "work"), Hash: slot.Root{byte(rapid.IntRange(0, 4).Draw(t, "hash"))},
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := successor.Draw(t, "a"), successor.Draw(t, "b"), successor.Draw(t, "c")
		if a.Before(b) && b.Before(a) || a.Hash != b.Hash && !a.Before(b) && !b.Before(a) {
			t.Fatal("two successors, and not one order of them")
		}
		if a.Before(b) && b.Before(c) && !a.Before(c) {
			t.Fatal("a circle")
		}
	})
}

// A peer leaves the branch on which it is for one with more work below. When a certificate shows
// that the work there is void, it comes back to the branch that it left, which nobody has shown to
// it.
func TestAPeerComesBackToWhatItLeft(t *testing.T) {
	founded := grown(New(Rules{Run: slot.Hash([]byte("run")), Fragments: []uint64{1}}, slot.Root{}), slot.Fork, 5, 9, 0)
	light, heavy := grown(founded, slot.Fork, 3, 5, 1), grown(founded, slot.Fork, 3, 6, 2)
	own := grown(light, slot.Members, 5, 7, 3)
	shown := []*Chain{grown(heavy, slot.Fork, 2, 8, 4), grown(heavy, slot.Members, 5, 6, 5)}
	choose := treeChooser()
	if at := choose(own, shown[0]); at.TipHash() != shown[0].TipHash() {
		t.Fatal("the heavier branch is not chosen")
	}
	if at := choose(shown[0], shown[1]); at.TipHash() != own.TipHash() {
		t.Error("the branch that was left is not chosen again")
	}
}

// A branch that parted long ago, and more branches than a peer keeps, are forgotten.
func TestATreeIsBounded(t *testing.T) {
	var tree Tree
	own := grown(New(Rules{Run: slot.Hash([]byte("run")), Fragments: []uint64{1}}, slot.Root{}), slot.Fork, 5, 9, 0)
	for i := range 2 * maxSides {
		tree.Choose(own, grown(own, slot.Fork, 1, 1, i), "other", "self")
		if better, _ := tree.Choose(own, grown(own, slot.Members, 5, 9, i), "other", "self"); better != nil {
			own = better
		}
	}
	if len(tree.sides) != maxSides {
		t.Errorf("%d branches are kept", len(tree.sides))
	}
	for range MaxSiblingAge {
		own = grown(own, slot.Members, 5, 9, 0)
	}
	tree.Choose(own, own, "other", "self")
	if len(tree.sides) > 0 {
		t.Errorf("%d branches are kept that parted too long ago", len(tree.sides))
	}
}
