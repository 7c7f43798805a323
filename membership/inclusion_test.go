package membership

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// workingLab is a byzantine run that has done five slots, all of its members contributing.
func workingLab(t *testing.T, names string) *lab {
	t.Helper()
	return labUntil(t, names, func(c *chain.Chain) bool { return c.Tip().Slot >= 5 })
}

// labUntil is a byzantine run all of whose members contribute until the chain of the first is so.
func labUntil(t *testing.T, names string, is func(*chain.Chain) bool) *lab {
	t.Helper()
	rules := labRules()
	rules.Byzantine, rules.StartPeers, rules.Frame = true, len(names), 8
	l := connectedLab(t, rules, labTiming, names)
	l.awaits(t, "the chain is one of these", func() bool { return is(l.peers[0].m.chain) })
	return l
}

func (l *lab) others(than *labPeer) (ps []*labPeer) {
	for _, p := range l.peers {
		if p != than {
			ps = append(ps, p)
		}
	}
	return ps
}

// A step lists all but f, and one for each term, of the electors that contributed lately, in each
// of its segments (V12). What is valid in a term is valid in all later ones.
func TestInclusion(t *testing.T) {
	l := workingLab(t, "ABCDE") // one of the electors may lie
	m := l.peer("A").m
	if n := len(m.chain.Electorate()); n != 4 {
		t.Fatalf("%d electors", n)
	}
	for name, c := range map[string]struct {
		names string
		out   string // of the first segment
		from  uint32 // the first term in which it is valid
	}{
		"all of all":               {"ABCDE", "", 0},
		"without one elector":      {"ABCE", "", 0},
		"without two electors":     {"ABE", "", 1},
		"one elector":              {"BE", "", 4},
		"no elector":               {"E", "", 4},
		"a segment without one":    {"ABCDE", "C", 0},
		"a segment without two":    {"ABCDE", "CD", 1},
		"a segment without three":  {"ABCDE", "BCD", 4},
		"a segment without all":    {"ABCDE", "ABCD", 4},
		"a segment of two of many": {"ABCE", "C", 1},
	} {
		r := stepRecord(m, c.names)
		for i, o := range r.Contributions {
			if strings.Contains(c.out, labName(o.Peer)) {
				half := r.Segments[0]
				half.Contributors = append(slot.Bitmap{}, half.Contributors...)
				half.Contributors[i/8] &^= 1 << (i % 8)
				r.Segments[0] = half
			}
		}
		r = m.chain.Settle(r, chain.Turnover{Listed: m.chain.Members()})
		for term := range uint32(6) {
			if err := m.chain.Check(r, term*slot.Tries+2); (err == nil) != (term >= c.from) {
				t.Errorf("%s, term %d: %v", name, term, err)
			}
		}
	}
}

// Owners have a vote or credit, unless nobody of the group has, and none has too much (V14).
func TestOwners(t *testing.T) {
	l := workingLab(t, "ABCDEF")
	m := l.peer("A").m
	for name, credit := range map[string]uint16{"E": 1, "F": 0, "A": 0} { // A has a vote
		m.chain.Members()[slot.Find(m.chain.Members(), labID(name))].Credit = credit
	}
	for name, c := range map[string]struct{ group, owners, want string }{
		"electors":               {"ABCDEF", "ABCD", ""},
		"credit":                 {"ABCDEF", "ABCE", ""},
		"neither":                {"ABCDEF", "ABCF", "neither a vote nor credit"},
		"where nobody may":       {"F", "F", ""},
		"half for one of four":   {"ABCD", "AACD", ""},
		"half for one of six":    {"ABCDEF", "AACD", ""},
		"more than half for one": {"ABCDE", "ABBBD", "are the most"},
		"all for one":            {"ABCDE", "B", "are the most"},
	} {
		var pieces []slot.Piece
		elements, n := m.chain.Rules().Elements(m.chain.OpenSlot()), uint64(len(c.owners))
		for i, o := range c.owners {
			r := slot.Range{Begin: uint64(i) * elements / n, End: uint64(i+1) * elements / n}
			pieces = append(pieces, slot.Piece{Range: r, Owner: labID(string(o))})
		}
		err := m.chain.CheckOwners(pieces, offerers(stepRecord(m, c.group).Contributions), len(c.group))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// where one of three may own it has all
	m.chain.Members()[slot.Find(m.chain.Members(), labID("E"))].Credit = 0
	whole := []slot.Piece{{Range: slot.Range{End: m.chain.Rules().Elements(m.chain.OpenSlot())}, Owner: labID("A")}}
	if err := m.chain.CheckOwners(whole, offerers(stepRecord(m, "AEF").Contributions), 3); err != nil {
		t.Errorf("the one that may own: %v", err)
	}
}

// An owner states a range without electors that its group has and no step may lack. It counts no
// more than one of too few contributors.
func TestARangeWithoutElectors(t *testing.T) {
	l := auditedLab(t, "ABCD")
	l.add("e")
	l.connect()
	l.goesOn(t, 6)
	leader := l.leading(t, func(_ *labPeer, lead *leading) bool {
		return lead.ref.Ballot == 0 && lead.plan != nil && lead.plan.Living() == 5 && len(lead.segments) == 0
	})
	plan, owner := *leader.m.open.lead.plan, l.aside(leader, 1)
	if owner.name == "e" {
		owner = l.aside(leader, 2)
	}
	for _, c := range []struct {
		names string
		fits  bool
	}{{"ABe", false}, {"ABCe", true}} {
		s := slot.Segment{Range: pieceOf(plan, owner), Contributors: slot.NewBitmap(5), Root: slot.Root{1}}
		for i, o := range plan.Offers {
			if strings.Contains(c.names, labName(o.Peer)) {
				s.Contributors.Set(i)
			}
		}
		err := leader.step(labSigned(owner, segmentOf(plan, s)))
		if (err == nil) != c.fits || err != nil && !errors.Is(err, chain.ErrInvalid) {
			t.Errorf("a range of %s: %v", c.names, err)
		}
	}
}

// A leader that plans with itself alone gets no HAVE, and the next one decides the slot.
func TestALeaderThatPlansAloneDecidesNothing(t *testing.T) {
	l := workingLab(t, "ABCD")
	var liar *labPeer
	l.awaits(t, "somebody leads without a plan", func() bool {
		for _, p := range l.peers {
			if ld := p.m.open.lead; ld != nil && ld.prepared && ld.plan == nil && ld.draft == nil {
				liar = p
			}
		}
		behind := func(p *labPeer) bool {
			return liar == nil || p.m.chain.Height() != liar.m.chain.Height() || !p.m.model.atTip()
		}
		if slices.ContainsFunc(l.peers, behind) {
			liar = nil
		}
		return liar != nil
	})
	at := liar.m.chain.Height()
	alone := liar.m.chain.Settle(stepRecord(liar.m, liar.name), chain.Turnover{Listed: liar.m.chain.Members()})
	for _, p := range l.others(liar) {
		err := p.step(labSigned(liar, draftOf(0, alone, l.proofs(alone.Contributions))))
		if !errors.Is(err, chain.ErrInvalid) || p.m.open.draft != nil {
			t.Errorf("%s takes the draft: %v", p.name, err)
		}
	}
	liar.crash()
	l.awaits(t, "others go on", func() bool { return l.others(liar)[0].m.chain.Height() > at+1 })
	if c := l.others(liar)[0].m.chain.At(at + 1).Contributions; len(c) == 1 {
		t.Error("the slot was decided with the liar alone")
	}
}

// More electors than may be missing are too slow. The leader whose window closes resigns, the next
// one needs fewer, and decides the slot: long before a term is over by anybody's clock.
func TestALeaderResignsWhereTooFewOffer(t *testing.T) {
	t.Parallel()
	timing := labTiming
	timing.Term = time.Hour
	rules := labRules()
	rules.Byzantine, rules.StartPeers = true, 7
	l := connectedLab(t, rules, timing, "ABCDEFG")
	l.awaits(t, "slot 5", func() bool { return l.peers[0].m.chain.Tip().Slot >= 5 })
	for _, n := range "EFG" { // three, where two may be missing
		l.peer(string(n)).slowness = time.Hour
	}
	l.log = nil
	a := l.peer("A").m
	from := a.chain.Height()
	for a.chain.Tip().Slot < 9 {
		l.within(t, 2*time.Minute, "a slot", func() bool { return a.chain.Height() > from })
		from = a.chain.Height()
	}
	resigned := 0
	for _, c := range a.chain.Commits()[5:] {
		if term := c.Certificate.Term(); c.Record.Kind == slot.Step && len(c.Record.Contributions) < 5 {
			resigned += btoi(term == 1)
			if term > 1 {
				t.Errorf("slot %d is decided in term %d", c.Record.Slot, term)
			}
		}
	}
	if resigned < 3 {
		t.Errorf("%d slots are decided after a resignation\n%s", resigned, l.show())
	}
}

// A resignation moves to the next term alone, and only if it is that of the leader that is
// followed. One promise of another moves nobody.
func TestWhoseResignationCounts(t *testing.T) {
	for name, c := range map[string]struct {
		leader bool
		ballot uint32
		want   uint32
	}{
		"the leader's":                  {true, slot.Tries, slot.Tries},
		"another one's":                 {false, slot.Tries, 0},
		"the leader's, two terms ahead": {true, 2 * slot.Tries, 0},
	} {
		l := workingLab(t, "ABCD")
		var p, by *labPeer
		l.awaits(t, "term 0 of a height", func() bool {
			i := slices.IndexFunc(l.peers, func(q *labPeer) bool {
				return q.m.open.ballot == 0 && q.m.open.lead == nil && q.m.model.atTip()
			})
			if i >= 0 {
				p = l.peers[i]
			}
			return i >= 0
		})
		leader := p.m.open.leader(0).Peer
		for _, q := range l.others(p) {
			if (q.id == leader) == c.leader {
				by = q
			}
		}
		if err := p.step(labSigned(by, wire.Promise{Ref: p.m.open.position(c.ballot)})); err != nil {
			t.Fatal(name, err)
		}
		own := p.m.pledges.open.Promise
		if p.m.open.ballot != c.want || (own != nil && own.Ballot == c.want) != (c.want > 0) {
			t.Errorf("%s: ballot %d, the own promise is %+v", name, p.m.open.ballot, own)
		}
	}
}
