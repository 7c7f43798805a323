package membership

import (
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// arrangements is the traffic before a draft: it decides what is drafted, and binds nobody.
// Delivered at once, it leaves the explorer to the orders of what binds.
var arrangements = func() map[slot.MessageType]bool {
	return map[slot.MessageType]bool{
		slot.TypeOffer: true, slot.TypePlan: true, slot.TypeSegment: true, slot.TypeLost: true,
		slot.TypeNeed: true, slot.TypeJoin: true,
	}
}()

// TestExplore visits what real machines can get into, breadth first, up to a
// number of worlds, and finds no invariant broken.
func TestExplore(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("nightly")
	}
	for _, c := range []struct {
		name                      string
		peers, newcomers          int
		slots                     uint64
		terms                     uint32
		crashes, deaths, mistrust int
		all                       bool // every message in every order, the arrangements too
	}{
		{name: "two terms", peers: 3, slots: 1, terms: 1},
		{name: "three terms", peers: 3, slots: 1, terms: 2},
		{name: "a crash", peers: 3, slots: 1, terms: 1, crashes: 1},
		{name: "a death", peers: 3, slots: 2, terms: 1, deaths: 1},
		{name: "a wrong suspicion", peers: 3, slots: 1, terms: 1, mistrust: 1},
		{name: "two peers, two slots", peers: 2, slots: 2, terms: 2, crashes: 1},
		{name: "a newcomer, a death", peers: 2, newcomers: 1, slots: 2, terms: 1, deaths: 1},
		{name: "two newcomers, deaths", peers: 2, newcomers: 2, slots: 1, terms: 1, deaths: 2},
		{name: "all orders", peers: 3, slots: 1, terms: 1, all: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, w := newExplorer(t, c.peers, c.newcomers, c.slots)
			x.limit = 300_000
			x.terms, x.crashes, x.deaths, x.mistrust = c.terms, c.crashes, c.deaths, c.mistrust
			if !c.all {
				x.at = arrangements
			}
			complete := x.explore(w)
			t.Logf("%d worlds, %d peer states, %d messages, complete=%v", x.worlds, len(x.locals), len(x.parcels),
				complete)
			if x.fault != "" {
				t.Fatalf("%s\n%s", x.fault, strings.Join(x.trace, "\n"))
			}
		})
	}
}

// TestExplorerFindsFaults takes one rule away from the disk and expects the explorer to say what
// breaks.
func TestExplorerFindsFaults(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("nightly")
	}
	forget := func(forgets func(wire.Entry) bool) func(wire.Entry) bool {
		return func(e wire.Entry) bool { return !forgets(e) }
	}
	for _, c := range []struct {
		name, want string
		keep       func(wire.Entry) bool
		outcomes   bool
		before     func(*explorer, *Machine, wire.Message) wire.Message
		newcomers  int
		deaths     int
		crashes    int
	}{
		{
			name: "promises in memory only (H2)", want: "I6", crashes: 1,
			keep: forget(func(e wire.Entry) bool { _, ok := e.(wire.EntryPromise); return ok }),
		},
		{
			name: "HAVEs in memory only (H5, m2)", want: "I6", crashes: 1,
			keep: forget(func(e wire.Entry) bool { _, ok := e.(wire.EntryHave); return ok }),
		},
		{
			name: "votes in memory only (m3)", want: "I6", crashes: 1,
			keep: forget(func(e wire.Entry) bool { _, ok := e.(wire.EntryVote); return ok }),
		},
		{name: "outcomes in memory only (H10)", want: "I3", crashes: 3, outcomes: true},
		{name: "newcomers are not asked (m19)", want: "I3", newcomers: 2, deaths: 1, before: newcomersNotAsked},
		{
			name: "certificates in memory only", want: "I5",
			keep: forget(func(e wire.Entry) bool { _, ok := e.(wire.EntryCommit); return ok }),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, w := newExplorer(t, 3-c.newcomers, c.newcomers, 1)
			x.limit = 400_000
			x.terms, x.crashes, x.deaths, x.at = 1, c.crashes, c.deaths, arrangements
			x.plant = plant{keep: c.keep, loseOutcomes: c.outcomes, before: c.before}
			x.explore(w)
			if !strings.HasPrefix(x.fault, c.want) {
				t.Fatalf("found %q after %d worlds, not %s", x.fault, x.worlds, c.want)
			}
			t.Logf("%s, after %d worlds:\n%s", x.fault, x.worlds, strings.Join(x.trace, "\n"))
		})
	}
}
