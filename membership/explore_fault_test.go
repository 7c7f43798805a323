package membership

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// TestExploreLiar lets one of four electors lie, as the leader and as a voter, and finds no two
// records certified and no honest elector that contradicts itself.
func TestExploreLiar(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("nightly")
	}
	for _, c := range []struct {
		name    string
		tries   uint32
		terms   uint32
		crashes int
	}{
		{name: "one ballot", tries: 1},
		{name: "two ballots", tries: 2},
		{name: "three ballots", tries: 3},
		{name: "a crash", tries: 2, crashes: 1},
		{name: "an honest leader next", tries: 1, terms: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := labRules()
			rules.Byzantine = true
			x, w := newLiarsWorld(t, rules, 4, c.tries)
			x.limit, x.terms, x.crashes = 300_000, c.terms, c.crashes
			begun := time.Now()
			complete := x.explore(w)
			t.Logf("%d worlds, %d peer states, %d messages, complete=%v, %v", x.worlds, len(x.locals), len(x.parcels),
				complete, time.Since(begun))
			if x.fault == "" {
				x.drops()
				x.forgesOffer()
				x.liar.terms, x.worlds = []uint32{(c.terms + 1) * slot.Tries, 1 << 20}, 0
				clear(x.liar.lies)
				until := time.Now().Add(2 * time.Minute)
				x.hunt(w, rand.New(rand.NewPCG(3, 4)), 12, until)
				t.Logf("%d worlds by chance", x.worlds)
			}
			if x.fault != "" {
				t.Fatalf("%s\n%s", x.fault, strings.Join(x.trace, "\n"))
			}
		})
	}
}

// TestExploreLiarFindsFaults takes one rule away from the honest machines and expects the liar to
// break what it protects.
func TestExploreLiarFindsFaults(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("nightly")
	}
	type world struct {
		name, want string
		locked     bool // it begins where two electors have a lock
		electors   int  // 0: four
		tries      uint32
		crashes    int
		crash      bool // trust crash, and its quorum
		first      int  // members that the run starts with; 0: the electors
		more       func(*explorer)
		plant      plant
	}
	for _, c := range []world{
		{
			name: "promises in memory only (m1)", want: "I6", tries: 2, crashes: 1,
			plant: plant{keep: forgets[wire.EntryPromise]},
		},
		{
			name: "HAVEs in memory only (m2)", want: "I6", tries: 1, crashes: 1,
			plant: plant{keep: forgets[wire.EntryHave]},
		},
		{
			name: "votes in memory only (m3)", want: "I6", tries: 2, crashes: 1,
			plant: plant{keep: forgets[wire.EntryVote]},
		},
		{name: "grounds are not checked (m4)", want: "A1", tries: 2, plant: plant{before: inDrafts(anyGrounds)}},
		{name: "QCs are not checked (m5)", want: "A1", tries: 3, plant: plant{before: anyQC}},
		{name: "quorums of trust crash (m6)", want: "A1", tries: 1, crash: true},
		{name: "more than half of five (m6)", want: "A1", electors: 5, tries: 1, crash: true},
		{name: "HAVE twice (m7)", want: "I6", tries: 1, plant: plant{before: inDrafts(haveTwice)}},
		{
			name: "locks without a QC count (m8)", want: "A1", tries: 3,
			plant: plant{before: inDrafts(locksWithoutQC)},
		},
		{
			name: "not the highest lock (m9)", want: "A1", locked: true, tries: 3,
			plant: plant{before: inDrafts(anyLock)},
		},
		{
			name: "a drop by f statements (m10)", want: "A3", tries: 1, more: (*explorer).drops,
			plant: plant{before: inDrafts(fewStatements)},
		},
		{
			name: "too many seats (m14)", want: "A8", tries: 1, first: 7, more: (*explorer).promotes,
			plant: plant{after: manySeats},
		},
		{name: "one promise moves all (m18)", want: "A4", tries: 1, plant: plant{after: movedByOne}},
		{
			name: "an offer without its signature", want: "A2", tries: 1, more: (*explorer).forgesOffer,
			plant: plant{unsigned: true},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := labRules()
			rules.Byzantine, rules.StartPeers = !c.crash, c.first
			x, w := newLiarsWorld(t, rules, max(c.electors, 4), c.tries)
			x.crashes, x.plant, x.liar.terms = c.crashes, c.plant, []uint32{slot.Tries, 1 << 20}
			if c.more != nil {
				c.more(x)
			}
			if c.locked {
				w = x.locked(w)
			}
			begun := time.Now()
			x.hunt(w, rand.New(rand.NewPCG(1, 2)), 12, begun.Add(3*time.Minute))
			if !strings.HasPrefix(x.fault, c.want) {
				t.Fatalf("found %q after %d worlds, not %s", x.fault, x.worlds, c.want)
			}
			t.Logf("%s, after %d worlds, %v:\n%s", x.fault, x.worlds, time.Since(begun), strings.Join(x.trace, "\n"))
		})
	}
}
