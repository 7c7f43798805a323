package membership

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// crowdedLab is a lab of some electors and of members that have never contributed, and do not yet.
func crowdedLab(t *testing.T, electors string, n int, change func(*chain.Rules)) (l *lab, newcomers []*labPeer) {
	t.Helper()
	l = auditedLab(t, electors, func(r *chain.Rules) {
		r.NewcomerShare, r.MaxElectors = 500, len(electors)
		change(r)
	})
	for _, p := range l.peers {
		p.slowness = 4 * labTraining // so that who begins to train with a slot is not late for it
	}
	for i := range n {
		p := l.add(string(rune('a' + i)))
		train(false, p)
		newcomers = append(newcomers, p)
	}
	l.connect()
	l.awaits(t, "all are members", func() bool { return len(l.peers[0].m.chain.Members()) == len(electors)+n })
	return l, newcomers
}

// beginsWith lets time pass until a slot begins that an elector leads first. Then some begin to
// train.
func (l *lab) beginsWith(t *testing.T, leader *labPeer, trainers ...*labPeer) {
	t.Helper()
	began := func() bool {
		slots, height := l.slots(), leader.m.chain.Height()
		return slots == leader.m.chain.Tip().Slot && leader.m.chain.Tip().Kind == slot.Step &&
			leader.m.open.leader(0).Peer == leader.id && len(leader.m.presence.offers()) == 0 &&
			!slices.ContainsFunc(l.peers, func(p *labPeer) bool { return p.up() && p.m.chain.Height() != height })
	}
	l.within(t, 2*time.Minute, leader.name+" leads a slot", began)
	train(true, trainers...)
}

// decides lets time pass until the open slot is decided. It returns the terms that were lost
// meanwhile, and the step.
func (l *lab) decides(t *testing.T, p *labPeer) (lost int, step slot.Record) {
	t.Helper()
	height, s := p.m.chain.Height(), p.m.chain.OpenSlot()
	l.awaits(t, fmt.Sprintf("slot %d is decided", s), func() bool { return p.m.chain.Tip().Slot >= s })
	for _, c := range p.m.chain.Commits()[height:] {
		lost += int(c.Certificate.Ballot / slot.Tries)
		if c.Record.Kind == slot.Step && c.Record.Slot == s {
			step = c.Record
		}
	}
	for _, f := range l.watch.faults {
		t.Error(f)
	}
	return lost, step
}

// newcomersIn counts the contributions to a segment of peers in lower case.
func newcomersIn(offers []slot.Offer, set slot.Bitmap) (n int) {
	for i, o := range offers {
		n += btoi(set.Has(i) && labName(o.Peer) >= "a")
	}
	return n
}

// A leader that lies plans with as many newcomers as there are. No honest elector follows its plan,
// which costs it its term.
func TestALeaderOfManyNewcomersIsNotFollowed(t *testing.T) {
	t.Parallel()
	l, strangers := crowdedLab(t, "ABCD", 5, func(*chain.Rules) {})
	liar, honest := l.peer("D"), l.peer("A")
	changeRules(liar.m, func(r *chain.Rules) { r.NewcomerShare = 5000 })
	liar.crowds = true
	l.beginsWith(t, liar, strangers...)
	height := honest.m.chain.Height() + 1
	l.awaits(t, "the second term begins", func() bool {
		for _, p := range l.peers {
			if p != liar && p.m.open.ref.Height == height && p.m.open.ballot < slot.Tries && p.m.open.plan != nil {
				t.Fatalf("%s follows the plan", p.name)
			}
		}
		return honest.m.open.term() > 0
	})
	refused := "A peer.refused height=%d slot=%d peer=D (its plan is refused: breaks the rules of the ledger: a plan"
	if want := fmt.Sprintf(refused, height-1, honest.m.chain.Tip().Slot); !slices.ContainsFunc(l.log,
		func(line string) bool { return strings.HasPrefix(line, want) }) {
		t.Errorf("nothing tells who is to blame\n%s", strings.Join(l.log[max(0, len(l.log)-20):], "\n"))
	}
	if lost, step := l.decides(t, honest); lost != 1 || len(step.Contributions) < 5 {
		t.Errorf("%d terms are lost, and %d contribute", lost, len(step.Contributions))
	}
}

// seven is a lab of seven electors, that reduce with three newcomers, as many as there may be:
// beside six there may be two. One has stated its piece, all others wait.
func seven(t *testing.T, audits int) (l *lab, leader, dies *labPeer) {
	t.Helper()
	l, newcomers := crowdedLab(t, "ABCDEFG", 4, func(r *chain.Rules) { r.NewcomerShare, r.AuditSamples = 430, audits })
	leader, dies = l.peer("A"), l.peer("D")
	l.beginsWith(t, leader, newcomers...)
	for _, p := range l.peers {
		p.stuck = p.name != "B"
	}
	l.awaits(t, "one has stated its piece", leader.hasSegments)
	if n := newcomersIn(leader.m.open.lead.plan.Offers, livingSet(*leader.m.open.lead.plan)); n != 3 {
		t.Fatalf("the plan has %d newcomers", n)
	}
	return l, leader, dies
}

// hasSegments says whether a peer leads, and an owner of its plan has stated its piece.
func (p *labPeer) hasSegments() bool {
	lead := p.m.open.lead
	return lead != nil && lead.plan != nil && len(lead.segments) > 0
}

// An elector dies in the reduction beside as many newcomers as there may be. The revision takes one
// of these out, too. Where outcomes are not audited, what was reduced with both stays; else the
// slot is reduced anew without the dead one, as ever.
func TestALossTakesNewcomersOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		audits int
		crowds bool
	}{
		"owners go on by themselves":     {0, false},
		"owners go by the revision":      {0, true},
		"outcomes are audited":           {8, false},
		"audited, by what the plan says": {8, true},
	} {
		t.Run(name, func(t *testing.T) {
			l, leader, dies := seven(t, c.audits)
			var first stated
			for _, s := range leader.m.open.lead.segments {
				first = s
			}
			dies.crash()
			l.awaits(t, "the plan is without it", func() bool {
				p := leader.m.open.lead.plan
				return p != nil && (p.Place(dies.id) < 0 || p.Gone.Has(p.Place(dies.id)))
			})
			p := leader.m.open.lead.plan
			if n := newcomersIn(p.Offers, livingSet(*p)); n != 2 {
				t.Errorf("the revision has %d newcomers", n)
			}
			if p.Place(dies.id) < 0 && p.Gone.Count() > 0 {
				t.Errorf("of a new group %d are gone", p.Gone.Count())
			}
			l.rests(10 * labLatency)
			l.goOnWith(c.crowds)
			lost, step := l.decides(t, leader)
			if lost > 0 {
				t.Errorf("%d terms are lost", lost)
			}
			counts, kept := map[int]int{}, false
			for _, s := range step.Segments {
				counts[newcomersIn(step.Contributions, s.Contributors)]++
				kept = kept || s.Root == first.Root
			}
			if c.audits > 0 && !kept && counts[2] == len(step.Segments) {
				return
			}
			if c.audits > 0 || !kept || counts[3] != 1 || counts[2] != len(step.Segments)-1 {
				t.Errorf("what was reduced is kept: %v; segments by newcomers: %v", kept, counts)
			}
		})
	}
}

// goOnWith has all owners state their pieces, by the plans that they follow.
func (l *lab) goOnWith(crowds bool) {
	for _, p := range l.peers {
		if !p.up() {
			continue
		}
		p.stuck, p.crowds = false, crowds
		if plan := p.m.open.plan; plan != nil && plan.Place(p.id) >= 0 {
			p.reduce(WorkReduce{Plan: *plan, Share: p.m.chain.Share(plan.Offers)})
		}
	}
}

// Owners of an old program go on with all newcomers where they lose an elector. That costs another
// reduction, and neither a term nor their part in it.
func TestOldOwnersCostAReduction(t *testing.T) {
	t.Parallel()
	l, leader, dies := seven(t, 0)
	dies.crash()
	l.goOnWith(true)
	lost, step := l.decides(t, leader)
	if lost > 0 || len(step.Contributions) != 7 {
		t.Errorf("%d terms are lost, and %d contribute", lost, len(step.Contributions))
	}
}

// A newcomer that had to go with others shows auditors what it gave: what was reduced with it
// stays.
func TestWhatNewcomersGaveStays(t *testing.T) {
	t.Parallel()
	l, leader, dies := seven(t, 8)
	lead := leader.m.open.lead
	var at uint64
	for begin, s := range lead.segments { // as if its owner had lost the dead one before
		set := slices.Clone(s.Contributors)
		i := lead.plan.Place(dies.id)
		set[i/8] &^= 1 << (i % 8)
		for j, o := range lead.plan.Offers { // and another newcomer than the leader takes out
			if labName(o.Peer) == "a" {
				set[j/8] &^= 1 << (j % 8)
			}
		}
		s.Contributors, at = set, begin
		lead.segments[begin] = s
	}
	group := lead.group
	dies.crash()
	l.awaits(t, "the plan is without it", func() bool { return leader.m.open.lead.plan.Gone.Count() > 0 })
	p := leader.m.open.lead.plan
	if _, kept := leader.m.open.lead.segments[at]; leader.m.open.lead.group != group || !kept || p.Gone.Count() != 2 {
		t.Errorf("what was reduced with a newcomer is not kept; gone are %d", p.Gone.Count())
	}
}

// Members that a record in mid-slot lists, since too few contribute without them, are newcomers in
// that slot: as many contribute as it takes, the leader lists no more, and nobody refuses it. The
// first one resigns, since two of four electors do not train.
func TestWhoIsListedInMidSlotIsANewcomer(t *testing.T) {
	l := auditedLab(t, "ABCD", func(r *chain.Rules) { r.NewcomerShare, r.MaxElectors = 250, 4 })
	for _, p := range l.peers {
		p.slowness = 20 * labTraining
	}
	honest := l.peer("A")
	l.beginsWith(t, honest)
	for _, name := range []string{"a", "b", "c"} {
		l.add(name)
	}
	l.connect()
	began := honest.m.chain.Tip()
	// two of the four stop, and the run is told that three must contribute
	for _, p := range l.peers {
		changeRules(p.m, func(r *chain.Rules) { r.MinPeers = 4 })
	}
	train(false, l.peers[2:4]...)
	l.awaits(t, "they are listed in mid-slot", func() bool {
		return honest.m.chain.Tip().Slot == began.Slot && len(honest.m.chain.Members()) == 7
	})
	for _, p := range l.peers[4:] {
		if !isNewcomer(honest.m, p.id) || slot.Find(began.Members, p.id) >= 0 {
			t.Errorf("%s is no newcomer", p.name)
		}
	}
	lost, step := l.decides(t, honest)
	if n := newcomersIn(step.Contributions, livingSet(slot.Plan{Offers: step.Contributions})); lost != 1 || n != 2 {
		t.Errorf("%d terms are lost, and %d newcomers contribute", lost, n)
	}
}

// Two newcomers own pieces, and the one that is listed last has stated its own when an elector
// dies. Owners leave a newcomer out before the revision comes, and the leader leaves out the same
// one: with both out too few would be left in what is at work, and nobody could say so.
func TestOwnersAndLeaderLeaveOutTheSame(t *testing.T) {
	l, newcomers := crowdedLab(t, "ABCD", 2, func(r *chain.Rules) {
		r.NewcomerShare, r.MinPeers, r.AuditSamples = 500, 4, 0
	})
	leader, dies := l.peer("A"), l.peer("D")
	l.beginsWith(t, leader, newcomers...)
	l.decides(t, leader)
	l.beginsWith(t, leader)
	for _, p := range l.peers {
		p.stuck = p != newcomers[1]
	}
	l.awaits(t, "one has stated its piece", leader.hasSegments)
	open := leader.m.chain.OpenSlot()
	dies.crash()
	for _, p := range l.peers {
		if p.up() && p.m.open.plan != nil { // engines notice
			plan := *p.m.open.plan
			p.reduce(WorkReduce{Plan: plan, Share: p.m.chain.Share(plan.Offers)})
		}
	}
	l.awaits(t, "the plan is without it", func() bool {
		lead := leader.m.open.lead
		return lead != nil && lead.plan != nil && !slices.Contains(livingOf(*lead.plan), dies.id)
	})
	l.goOnWith(false)
	l.awaits(t, "the slot is decided", func() bool { return leader.m.chain.Tip().Slot >= open })
	if n := len(leader.m.chain.Electorate()); n < 3 {
		t.Errorf("%d electors are left: one was dropped that lives", n)
	}
}

// isNewcomer says whether a peer's offer counts as one of a newcomer to a member that is none.
func isNewcomer(m *Machine, p slot.PeerID) bool {
	return len(m.chain.KnownOf([]slot.Offer{{Peer: m.cfg.Self}, {Peer: p}})) == 1
}
