package membership

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A run needs all of its members for a slot, and one is heard and takes no part. That cannot be
// mended without a person, so it is named: once by an event, and by status while it lasts, with
// what to do. Leaders are not deposed for it, and try ever more seldom. Without the rule nobody
// says anything, and a new leader tries again every few seconds, for ever.
func TestWhoKeepsASlotFromMinPeers(t *testing.T) {
	t.Parallel()
	for name, byzantine := range map[string]bool{"crash": false, "byzantine": true} {
		t.Run(name, func(t *testing.T) {
			rules := labRules()
			rules.MinPeers, rules.StartPeers, rules.Byzantine = 4, 4, byzantine
			l := connectedLab(t, rules, labTiming, "ABCD")
			slots := func(n uint64) {
				t.Helper()
				l.awaits(t, fmt.Sprintf("slot %d", n), func() bool { return l.slots() >= n })
			}
			slots(2)
			bad := l.peer("D")
			bad.broken = true
			l.rests(10 * time.Minute)
			at, a := l.slots(), l.peer("A")
			for _, p := range l.peers[:3] {
				if n := l.count(p.name, EventShort); n != 1 {
					t.Errorf("%s says %d times who is missing", p.name, n)
				}
				why := p.m.View().Reason
				for _, part := range []string{
					"min_peers is 4", bad.id.Short() + " is heard", "remove", "needs 1 more",
				} {
					if !strings.Contains(why, part) {
						t.Errorf("%s says %q, without %q", p.name, why, part)
					}
				}
			}
			bad.m.open.short.tries, bad.m.open.short.lost = 3, peersOf(bad.m.chain.Members())[:3]
			if why := bad.m.View().Reason; !strings.Contains(why, "this peer got nothing of") ||
				!strings.Contains(why, "doctor") {
				t.Errorf("a peer that gets nothing of the others says %q", why)
			}
			if n := a.m.open.short.tries; n < 6 || n > 60 {
				t.Errorf("%d tries in 10 minutes", n)
			}
			if term := a.m.open.term(); term > 3 {
				t.Errorf("leaders were deposed until term %d", term)
			}
			bad.broken = false
			slots(at + 3)
			if why := a.m.View().Reason; why != "" || len(a.m.chain.Members()) != 4 {
				t.Errorf("once it takes part: %q\n%s", why, l.show())
			}
		})
	}
}

// A leader lists fewer than it could, and then takes no part itself: the slot does not end with its
// group. Others could have had it decided, so nobody holds anything back for this leader, and its
// term runs out. Without that it could go on so for ever.
func TestALeaderThatListsTooFewIsNotSpared(t *testing.T) {
	for _, c := range []struct {
		min    int
		spared bool
	}{{3, false}, {4, true}} {
		rules := labRules()
		rules.MinPeers, rules.StartPeers, rules.Byzantine = c.min, 4, true
		l := connectedLab(t, rules, labTiming, "ABCD")
		m := l.peer("A").m
		l.awaits(t, "two slots, and all offers", func() bool { return l.slots() >= 2 && len(m.presence.offers()) == 4 })
		d, bad := m.open, l.peer("D").id
		d.last = &slot.Plan{Slot: 3}
		for _, o := range m.presence.offers() {
			if o.Peer != l.peer("C").id {
				d.last.Offers = append(d.last.Offers, o)
			}
		}
		d.groupReports = groupReports{
			group: d.last.Group(), lost: []ReportLost{{Peer: bad, Reason: wire.LostConnection}},
		}
		if m.participant.noteShort(); d.short.tries != 1 || (d.short.until > 0) != c.spared {
			t.Errorf("min_peers %d: %d tries, nothing before %v", c.min, d.short.tries, d.short.until)
		}
		// The leader takes one of the two for gone. Without both nobody's group is large enough.
		d.last.Gone = slot.NewBitmap(3)
		d.last.Gone.Set(d.last.Place(bad))
		d.groupReports.lost = append(d.groupReports.lost, ReportLost{Peer: l.peer("B").id, Reason: wire.LostConnection})
		if m.participant.noteShort(); d.short.tries != 1 || d.short.until == 0 {
			t.Errorf("min_peers %d, two lost: %d tries, nothing before %v", c.min, d.short.tries, d.short.until)
		}
	}
}
