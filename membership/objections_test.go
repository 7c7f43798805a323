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

// TestObjectionsInAYoungRun: as soon as four electors have contributed once, a plan without two of
// them gets no HAVE, though there are no four steps yet to go by.
func TestObjectionsInAYoungRun(t *testing.T) {
	l := labUntil(t, "ABCDE", func(c *chain.Chain) bool {
		return len(c.Electorate()) == 4 && c.At(c.LastStep()).Kind == slot.Step
	})
	m := l.peer("A").m
	if m.chain.Tip().Slot >= 3 {
		t.Fatalf("%d slots are done: the run is not young", m.chain.Tip().Slot)
	}
	m.open.plan, m.open.last = nil, nil
	for names, objects := range map[string]bool{"ABCD": false, "AB": true} {
		if why := m.objections.of(draftOf(0, stepRecord(m, names), nil)).why; (why != "") != objects {
			t.Errorf("a plan of %s alone: objection %q", names, why)
		}
	}
}

// TestObjections: an elector gives no HAVE for a step whose plan lists too few, or favours an
// owner, or that leaves contributions out, while honest electors alone could have prevented that.
func TestObjections(t *testing.T) {
	l := workingLab(t, "ABCDE") // one of the electors may lie
	m := l.peer("A").m
	if n := len(m.chain.Electorate()); n != 4 {
		t.Fatalf("%d electors", n)
	}
	m.open.plan, m.open.last = nil, nil
	plan := func(names string, owners ...string) *slot.Plan {
		p := &slot.Plan{Slot: m.chain.OpenSlot(), Offers: stepRecord(m, names).Contributions}
		elements := m.chain.Rules().Elements(p.Slot)
		for i, o := range owners {
			n := uint64(len(owners))
			p.Pieces = append(p.Pieces, slot.Piece{
				Range: slot.Range{Begin: uint64(i) * elements / n, End: uint64(i+1) * elements / n}, Owner: labID(o),
			})
		}
		return p
	}
	for name, c := range map[string]struct {
		plan    *slot.Plan
		names   string
		out     string // of the first segment
		ballot  uint32
		prepare func(d *wire.Draft)
		want    string // part of the objection; "": none
	}{
		"all of all":                  {nil, "ABCDE", "", 0, nil, ""},
		"without one elector":         {nil, "ABCE", "", 0, nil, ""},
		"the leader's own alone (a5)": {nil, "B", "", 0, nil, "without 3 electors"},
		"without two electors (a16)":  {nil, "ABE", "", 0, nil, "without 2 electors"},
		"the same in a later term":    {nil, "ABE", "", slot.Tries, nil, "without 2 electors"},
		"planned, and lost since":     {plan("ABCDE"), "ABCE", "", 0, nil, ""},
		"equal owners":                {plan("ABCD", "A", "B", "C", "D"), "ABCD", "", 0, nil, ""},
		"half for one of four":        {plan("ABCD", "A", "A", "C", "D"), "ABCD", "", 0, nil, ""},
		"all for one owner (grab)":    {plan("ABCDE", "B"), "ABCDE", "", 0, nil, "gives"},
		"more than half for one":      {plan("ABCDE", "A", "B", "B", "B", "D"), "ABCDE", "", 0, nil, "gives"},
		"more for one in a late term": {
			plan("ABCDE", "A", "B", "B", "B", "D"), "ABCDE", "", 3 * slot.Tries, nil, "",
		},
		"a segment without one":     {nil, "ABCDE", "C", 0, nil, ""},
		"a segment without two":     {nil, "ABCDE", "CD", 0, nil, "without the contributions of 2 electors"},
		"the same in the next term": {nil, "ABCDE", "CD", slot.Tries, nil, ""},
		"carried by a quorum (m11)": {nil, "B", "", slot.Tries, func(d *wire.Draft) { d.Grounds.QC = &wire.QC{} }, ""},
		"a record of members":       {nil, "B", "", 0, func(d *wire.Draft) { d.Record.Kind = slot.Members }, ""},
	} {
		r := stepRecord(m, c.names)
		for i, o := range r.Contributions {
			if strings.Contains(c.out, labName(o.Peer)) {
				set := append(slot.Bitmap{}, r.Segments[0].Contributors...)
				set[i/8] &^= 1 << (i % 8)
				r.Segments[0].Contributors = set
			}
		}
		d := draftOf(c.ballot, r, nil)
		if c.prepare != nil {
			c.prepare(&d)
		}
		m.open.plan = c.plan
		if got := m.objections.of(d).why; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: objection %q", name, got)
		}
	}
	// stragglers have had their time
	m.open.plan = nil
	d := draftOf(0, stepRecord(m, "ABE"), nil)
	for _, e := range m.chain.Electorate() {
		a := m.presence.known[ofMember(e)]
		o := stepRecord(m, labName(e.Peer)).Contributions[0]
		a.offer, a.offerAt = &o, m.now
	}
	if m.objections.of(d).why == "" {
		t.Error("no objection though stragglers have time")
	}
	m.now += labTiming.Straggler + 1
	for _, a := range m.presence.known {
		a.heard = m.now
	}
	if why := m.objections.of(d).why; why != "" {
		t.Errorf("stragglers have had their time: %s", why)
	}
}

// A leader that plans with itself alone gets no HAVE, also when it repeats its draft with a QC that
// is none, and the next one decides the slot.
func TestALeaderThatPlansAloneDecidesNothing(t *testing.T) {
	l := workingLab(t, "ABCD")
	var liar *labPeer
	done := l.run(time.Minute, func() bool {
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
	if !done {
		t.Fatal("nobody leads without a plan")
	}
	at := liar.m.chain.Height()
	alone := liar.m.chain.Settle(stepRecord(liar.m, liar.name), chain.Turnover{Listed: liar.m.chain.Members()})
	for _, p := range l.peers {
		if p == liar {
			continue
		}
		if err := p.step(labSigned(liar, draftOf(0, alone, l.proofs(alone.Contributions)))); err != nil {
			t.Fatal(err)
		}
		p.report(ReportHeld{Ref: p.m.chain.Next(), Outcome: alone.Outcome()})
		again := draftOf(0, alone, l.proofs(alone.Contributions))
		have := labSigned(liar, wire.Have{Vote: again.Vote})
		again.Grounds.QC = &wire.QC{Hash: alone.Hash(), Haves: []wire.SignedHave{
			{Peer: liar.id, Incarnation: liar.inc, Sig: have.Sig},
		}}
		if err := p.step(labSigned(liar, again)); !errors.Is(err, chain.ErrInvalid) {
			t.Errorf("a draft again, with a QC of its leader alone: %v", err)
		}
		p.report(ReportHeld{Ref: p.m.chain.Next(), Outcome: alone.Outcome()})
		if d := p.m.open.draft; d == nil || d.Hash != alone.Hash() || p.m.open.haveSent {
			t.Errorf("%s gives HAVE, or has not taken the draft", p.name)
		}
	}
	liar.crash()
	l.awaits(t, "others go on", func() bool { return l.others(liar)[0].m.chain.Height() > at+1 })
	if c := l.others(liar)[0].m.chain.At(at + 1).Contributions; len(c) == 1 {
		t.Error("the slot was decided with the liar alone")
	}
}

func (l *lab) others(than *labPeer) (ps []*labPeer) {
	for _, p := range l.peers {
		if p != than {
			ps = append(ps, p)
		}
	}
	return ps
}
