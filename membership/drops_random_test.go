package membership

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// TestNobodyThatVotesIsMute runs seven members over links that lose messages and take up to 350 ms,
// while one after the other dies and comes back. None is taken for one that does not vote or lead.
func TestNobodyThatVotesIsMute(t *testing.T) {
	t.Parallel()
	for seed := range testutil.Choose[uint64](1, 1, 4) {
		random := rand.New(rand.NewPCG(seed, 1))
		rules := labRules()
		rules.Byzantine, rules.StartPeers = true, 7
		l := connectedLab(t, rules, labTiming, "ABCDEFG")
		l.delays = func() []time.Duration {
			if random.IntN(50) == 0 {
				return nil // lost
			}
			return []time.Duration{time.Duration(1+random.IntN(40)*random.IntN(10)) * time.Millisecond}
		}
		l.rests(10 * time.Second)
		for range 20 {
			down := l.peers[random.IntN(7)]
			down.crash()
			l.connect()
			l.rests(time.Duration(random.IntN(5000)) * time.Millisecond)
			down.start()
			l.connect()
			l.rests(time.Duration(2000+random.IntN(5000)) * time.Millisecond)
		}
		for _, line := range l.log {
			if strings.Contains(line, "has not voted") || strings.Contains(line, "has led") {
				t.Errorf("seed %d: %s", seed, line)
			}
		}
		if h := l.peers[0].m.View().Tip; h.Slot < 40 {
			t.Errorf("seed %d: %d slots\n%s", seed, h.Slot, l.show())
		}
	}
}

// TestASilentOwnerHasNobodyDropped: a liar offers and owns pieces like all others, and states
// nothing while one honest member leads. The leader goes on without it in its own term, and keeps
// its seat. With seven members two liars do so in turns.
func TestASilentOwnerHasNobodyDropped(t *testing.T) {
	t.Parallel()
	for _, n := range []int{4, 7} {
		l := forkingLab(t, n, 0)
		honest, other, liars := l.peers[0], l.peers[1], l.peers[n-(n-1)/3:]
		lost, height := 0, other.m.chain.Height()
		dropped := func() bool { return slot.Find(other.m.chain.Electorate(), honest.id) < 0 }
		l.run(40*time.Second, func() bool {
			d, lead := other.m.open, honest.m.open.lead
			for i, p := range liars {
				p.stuck = d.leader(d.ballot).Peer == honest.id && (i == 0 || lead != nil && lead.leftOutSilent > 0)
			}
			if h := other.m.chain.Height(); h > height {
				c, _ := other.m.Record(h)
				lost, height = lost+btoi(c.Certificate.Ballot >= slot.Tries), h
			}
			return dropped()
		})
		if lost > 0 || dropped() {
			t.Errorf("%d members: %d terms were lost\n%s", n, lost, l.show())
		}
	}
}
