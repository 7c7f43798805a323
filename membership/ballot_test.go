package membership

import (
	"testing"
	"time"
)

// TestOfTwoCandidatesOneLeadsSoon: the leader and another of five die, two rise at the same moment, and it takes the promises of all
// who live. Whichever PREPARE the third gets first, the higher ballot is led long before anybody's patience is over.
func TestOfTwoCandidatesOneLeadsSoon(t *testing.T) {
	for name, first := range map[string]uint32{"the lower is promised more": 1, "the higher is": 2} {
		t.Run(name, func(t *testing.T) {
			l := labOf(t, "ABCDE")
			d := l.peers[0].m.open
			at := func(ballot uint32) *labPeer { return l.peer(labName(d.leader(ballot).Peer)) }
			at(d.ballot).crash()
			at(d.ballot + 3).crash()
			for _, ballot := range []uint32{first, 3 - first} {
				p := at(d.ballot + ballot)
				p.m.openBallot()
				p.flush()
			}
			higher := at(d.ballot + 2)
			began := l.now
			if !l.run(labTiming.Patience, higher.m.leadsPrepared) {
				t.Fatalf("nobody leads:\n%s", l.showWords())
			}
			if took, most := l.now-began, labTiming.Retry/2+labTiming.tick()+4*labLatency; took > most {
				t.Errorf("nobody led for %v, at most %v is due", took, most)
			}
			for _, p := range l.peers {
				if p.up() && p.m.open.ballot != higher.m.open.ballot {
					t.Errorf("%s follows ballot %d", p.name, p.m.open.ballot)
				}
			}
		})
	}
}

// TestACandidateIsLeftInPeace while it gets its promises and acts on them, and by its patience from then on.
func TestACandidateIsLeftInPeace(t *testing.T) {
	l := labOf(t, "ABC")
	d := l.peers[0].m.open
	at := func(ballot uint32) *labPeer { return l.peer(labName(d.leader(ballot).Peer)) }
	candidate, rival, a := at(d.ballot+1), at(d.ballot+2), at(d.ballot)
	ballot := d.ballot + 1
	for _, c := range []struct {
		after time.Duration
		leads bool // the candidate has shown that it does
		lives bool
	}{
		{0, false, true},
		{labTiming.Retry/2 - 1, false, true},
		{labTiming.Retry / 2, false, false},
		{labTiming.Retry / 2, true, true},
		{labTiming.Patience - 1, true, true},
	} {
		a.m.open.life = never
		ask := func(p *labPeer, ballot uint32) {
			t.Helper()
			if err := a.m.Step(l.now, labSigned(p, Prepare{a.m.open.at(ballot)})); err != nil {
				t.Fatal(err)
			}
		}
		ask(candidate, ballot)
		if c.leads {
			if err := a.m.Step(l.now, labSigned(candidate, Beat{Ref: a.m.open.at(ballot), Offers: 1})); err != nil {
				t.Fatal(err)
			}
		}
		l.now += c.after
		ask(rival, ballot+1)
		if lives := a.m.open.ballot == ballot; lives != c.lives {
			t.Errorf("%v after its PREPARE, leading %v: it is left in peace: %v", c.after, c.leads, lives)
		}
		ballot += 3
	}
}
