package membership

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A leader that revises its plan without an end fills nobody's events.
func TestRevisionsMakeFewEvents(t *testing.T) {
	rules := labRules()
	rules.Byzantine, rules.StartPeers = true, 4
	l := connectedLab(t, rules, labTiming, "ABCD")
	var led, leader *labPeer
	follows := func() bool {
		for _, p := range l.peers {
			if d := p.m.open; d.plan != nil && d.leader(d.ballot).Peer != p.id {
				led, leader = p, l.peer(labName(d.leader(d.ballot).Peer))
				return true
			}
		}
		return false
	}
	l.awaits(t, "a plan", follows)
	before, revised := l.count(led.name, EventPlanned), *led.m.open.plan
	for range 1000 {
		revised.Revision++
		m := wire.Plan{Plan: revised, Proofs: led.m.proofs.list(revised.Offers)}
		if err := led.step(labSigned(leader, m)); err != nil {
			t.Fatal(err)
		}
	}
	if led.m.open.plan.Revision != revised.Revision {
		t.Fatal("the revisions were not followed")
	}
	if n := l.count(led.name, EventPlanned) - before; n > 64 {
		t.Errorf("%d events of one term's plans", n)
	}
	before = l.count(led.name, EventPlanned)
	led.m.pacemaker.next()
	d := led.m.open
	d.began = led.m.now
	next := l.peer(labName(d.leader(d.ballot).Peer))
	revised.Ballot, revised.Revision = d.ballot, 0
	err := led.step(labSigned(next, wire.Plan{Plan: revised, Proofs: led.m.proofs.list(revised.Offers)}))
	if err != nil || l.count(led.name, EventPlanned) != before+1 {
		t.Errorf("%v, %d events of the next leader's plan", err, l.count(led.name, EventPlanned)-before)
	}
}
