package membership

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// TestOfTwoCandidatesOneLeadsSoon: the leader and another of five die, two rise at the same moment,
// and it takes the promises of all living members. Whichever PREPARE the third gets first, the
// higher ballot is led long before any leader timeout is over.
func TestOfTwoCandidatesOneLeadsSoon(t *testing.T) {
	for name, first := range map[string]uint32{"the lower is promised more": 1, "the higher is": 2} {
		t.Run(name, func(t *testing.T) {
			l := labOf(t, "ABCDE")
			d := l.peers[0].m.open
			at := func(ballot uint32) *labPeer { return l.peer(labName(d.leader(ballot).Peer)) }
			at(d.ballot).crash()
			at(d.ballot + 3*slot.Tries).crash()
			for _, ballot := range []uint32{first, 3 - first} {
				p := at(d.ballot + ballot*slot.Tries)
				p.m.candidate.openBallot()
				p.flush()
			}
			higher := at(d.ballot + 2*slot.Tries)
			began := l.now
			if !l.run(labTiming.Patience, higher.m.acceptor.leadsPrepared) {
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

// TestACandidateIsLeftInPeace while it gets its promises and acts on them, and by its leaderTimeout
// from then on.
func TestACandidateIsLeftInPeace(t *testing.T) {
	l := labOf(t, "ABC")
	d := l.peers[0].m.open
	at := func(ballot uint32) *labPeer { return l.peer(labName(d.leader(ballot).Peer)) }
	candidate, competitor, a := at(d.ballot+slot.Tries), at(d.ballot+2*slot.Tries), at(d.ballot)
	ballot := d.ballot + slot.Tries
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
			if err := a.m.Step(l.now, labSigned(p, wire.Prepare{Ref: a.m.open.at(ballot)})); err != nil {
				t.Fatal(err)
			}
		}
		ask(candidate, ballot)
		if c.leads {
			if err := a.m.Step(l.now, labSigned(candidate,
				wire.Beat{Ref: a.m.open.at(ballot), Offers: 1})); err != nil {
				t.Fatal(err)
			}
		}
		l.now += c.after
		ask(competitor, ballot+slot.Tries)
		if lives := a.m.open.ballot == ballot; lives != c.lives {
			t.Errorf("%v after its PREPARE, leading %v: it is left in peace: %v", c.after, c.leads, lives)
		}
		ballot += 3 * slot.Tries
	}
}

// TestALeaderIsToldOfALostVote: a peer that promised a higher ballot that nobody leads tells the
// leader, but not at each of its messages. With a vote in it that answer is as large as a record.
func TestALeaderIsToldOfALostVote(t *testing.T) {
	l := labOf(t, "ABC")
	d := l.peers[0].m.open
	at := func(ballot uint32) *labPeer { return l.peer(labName(d.leader(ballot).Peer)) }
	leader, competitor, a := at(0), at(slot.Tries), at(2*slot.Tries)
	a.m.open.life = never
	if err := a.m.Step(l.now, labSigned(competitor, wire.Prepare{Ref: a.m.open.at(slot.Tries)})); err != nil {
		t.Fatal(err)
	}
	told := func(after time.Duration) (n int) {
		t.Helper()
		a.m.Ready()
		for range 10 {
			if err := a.m.Step(l.now+after, labSigned(leader, wire.Beat{Ref: a.m.open.at(0)})); !errors.Is(err,
				ErrStale) {
				t.Fatal(err)
			}
			for _, e := range a.m.Ready().Send {
				p, ok := e.Body.(wire.Promise)
				if !ok {
					continue
				}
				if n++; p.Ref.Ballot != slot.Tries || !slices.Equal(e.To, []slot.PeerID{leader.id}) {
					t.Errorf("%+v", e)
				}
				if err := leader.m.Step(l.now+after, labSigned(a, p)); err != nil || leader.m.open.seen != slot.Tries {
					t.Errorf("the leader: %v, it has seen ballot %d", err, leader.m.open.seen)
				}
			}
		}
		return n
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {labTiming.Retry/2 - 1, 0}, {labTiming.Retry / 2, 1}, {labTiming.Retry, 0}, {2 * labTiming.Retry, 1}} {
		if n := told(c.after); n != c.want {
			t.Errorf("%v after the promise: told %d times, not %d", c.after, n, c.want)
		}
	}
	if err := leader.m.Step(l.now, labSigned(a, wire.Promise{Ref: leader.m.open.at(maxBallotStep)})); !errors.Is(err,
		ErrStale) || leader.m.open.seen != slot.Tries {
		t.Errorf("a promise in a ballot that is out of reach: %v, seen %d", err, leader.m.open.seen)
	}
}
