package membership

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A leader plans nothing, and proposes ever new records that nobody has given HAVE for. The others
// decide the slot without it.
func TestProposalsOfNothingKeepNoLeader(t *testing.T) {
	l := labOf(t, "ABCD")
	leader := l.peer(labName(l.peers[0].m.open.leader(0).Peer))
	others := slices.DeleteFunc(slices.Clone(l.peers), func(p *labPeer) bool { return p == leader })
	open := leader.m.open.ref
	l.filters = []*labFilter{{from: leader.name, left: -1}}
	for _, p := range others {
		p.trains = true
		p.report(ReportContributes{Contributes: true})
	}
	n, began := byte(0), l.now
	decided := func() bool { return others[0].m.chain.LastStep() > 0 }
	for !decided() && l.now-began < 2*time.Minute {
		n++
		h := slot.Root{n, 1}
		for _, p := range others {
			_ = p.step(labSigned(leader, wire.Propose{Vote: slot.Vote{Ref: open, Hash: h}, QC: &wire.QC{Hash: h}}))
		}
		l.run(200*time.Millisecond, decided)
	}
	if !decided() || l.now-began > 20*l.timing.Patience {
		t.Fatalf("no slot after %v\n%s", l.now-began, l.show())
	}
	for _, p := range others {
		if n := l.count(p.name, EventRefused); n != 1 {
			t.Errorf("%s tells %d times whose proposals it refuses", p.name, n)
		}
	}
}

// A proposal counts as progress once a ballot, however many records a quorum has given HAVE for.
func TestProposalsAreProgressOnce(t *testing.T) {
	l := labOf(t, "ABCD")
	m := l.peers[0].m
	leader := l.peer(labName(m.open.leader(0).Peer))
	if leader == l.peers[0] {
		m = l.peers[1].m
	}
	var haves []wire.SignedHave
	for _, e := range m.chain.Electorate() {
		haves = append(haves, wire.SignedHave{Peer: e.Peer, Incarnation: e.Incarnation})
	}
	for i := range byte(3) {
		m.now += time.Second
		v := slot.Vote{Ref: m.open.ref, Hash: slot.Root{i, 1}}
		p := wire.Propose{Vote: v, QC: &wire.QC{Hash: v.Hash, Haves: haves}}
		if err := m.acceptor.onPropose(labSigned(leader, p), p); err != nil {
			t.Fatal(err)
		}
		if lives := m.open.life == m.now; lives != (i == 0) {
			t.Errorf("proposal %d: progress %v", i, lives)
		}
	}
}

// leaderAndFollower waits for a peer that has not voted for the draft of another one.
func leaderAndFollower(t *testing.T, byzantine bool) (l *lab, leader, follower *labPeer) {
	rules := labRules()
	rules.Byzantine, rules.StartPeers = byzantine, 4
	l = newLab(t, rules, labTiming)
	for _, n := range "ABCD" {
		l.add(string(n))
	}
	l.connect()
	if !l.run(2*time.Minute, func() bool { return l.peers[0].m.View().AppliedSlot >= 3 }) {
		t.Fatal(l.show())
	}
	if !l.run(time.Minute, func() bool {
		for _, p := range l.peers {
			if d := p.m.open; d.draft != nil && d.plan != nil && p.m.pledges.open.Vote == nil &&
				d.leader(d.ballot).Peer != p.id {
				leader, follower = l.peer(labName(d.leader(d.ballot).Peer)), p
			}
		}
		return leader != nil
	}) {
		t.Fatal("no draft")
	}
	return l, leader, follower
}

// A leader repeats a proposal without a QC a thousand times, and revises its plan as often. It has
// the others write no more events than an honest leader may need, and work no more often.
func TestALeaderFillsNoEvents(t *testing.T) {
	for name, byzantine := range map[string]bool{"crash": false, "byzantine": true} {
		t.Run(name, func(t *testing.T) {
			l, leader, p := leaderAndFollower(t, byzantine)
			refused, planned := l.count(p.name, EventRefused), l.count(p.name, EventPlanned)
			d := p.m.open.draft.Vote
			for range 1000 {
				_ = p.step(labSigned(leader, wire.Propose{Vote: d, QC: &wire.QC{Ballot: d.Ballot, Hash: d.Hash}}))
			}
			if n := l.count(p.name, EventRefused) - refused; n != 1 {
				t.Errorf("%d events of 1000 proposals", n)
			}
			taken, first := 0, *p.m.open.plan
			most := plansATerm(4, first)
			for i := range uint32(1000) {
				plan := first
				plan.Revision += 1 + i
				_ = p.step(labSigned(leader, wire.Plan{Plan: plan, Proofs: p.m.proofs.of(plan.Offers)}))
				taken += btoi(p.m.open.plan.Revision == plan.Revision)
			}
			if n := l.count(p.name, EventPlanned) - planned; n > most || taken > most || taken < most-4 {
				t.Errorf("%d events of 1000 plans, %d are taken: %d may be", n, taken, most)
			}
		})
	}
}

// An honest leader of a large group may lose every peer of it, one by one, and begin anew. Each of
// its plans is taken at once; those after them wait for a Retry, and come when they are repeated.
func TestPlansOfAnHonestLeaderAreTaken(t *testing.T) {
	_, leader, p := leaderAndFollower(t, false)
	m, plan := p.m, *p.m.open.plan
	take := func() error {
		body := wire.Plan{Plan: plan, Proofs: m.proofs.of(plan.Offers)}
		return m.participant.onPlan(labSigned(leader, body), body)
	}
	for m.open.plans < plansATerm(len(m.open.order), plan) {
		plan.Revision++
		if err := take(); err != nil || m.open.plan.Revision != plan.Revision {
			t.Fatalf("plan %d: %v", m.open.plans, err)
		}
	}
	plan.Revision++
	if err := take(); !errors.Is(err, ErrStale) {
		t.Errorf("one more: %v", err)
	}
	m.now += m.cfg.Timing.Retry
	if err := take(); err != nil || m.open.plan.Revision != plan.Revision {
		t.Errorf("after a while: %v", err)
	}
}
