package membership

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// TestExploreAudits lets one of four electors lie where outcomes are audited: as an owner, as a
// contributor, as an auditor, as the leader.
func TestExploreAudits(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("nightly")
	}
	for _, c := range []struct {
		name            string
		world           auditsWorld
		terms           uint32
		crashes, deaths int
	}{
		{name: "the liar owns, everything is sampled", world: auditsWorld{all: true}},
		{name: "the liar owns", world: auditsWorld{}, terms: 1},
		{name: "the liar owns, a crash", world: auditsWorld{bytesLate: true}, crashes: 1},
		{name: "the liar leads", world: auditsWorld{liarLeads: true, all: true}, terms: 1},
		{name: "a contributor dies", world: auditsWorld{seatless: true}, deaths: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, w := newAuditsWorld(t, c.world)
			x.limit, x.terms, x.crashes, x.deaths = 30_000, c.terms, c.crashes, c.deaths
			x.continueOne = 100
			begun := time.Now()
			x.explore(w)
			first := x.worlds
			if x.fault == "" {
				x.wander(w, rand.New(rand.NewPCG(3, 4)), 200, 2*x.limit)
			}
			t.Logf("%d worlds, then %d by chance, of which %d have a QC and %d decide; %d followed, to term %d; %v",
				first, x.worlds-first, x.certifiable, x.decisions, x.continued, x.slowest, time.Since(begun))
			if x.fault != "" {
				t.Fatalf("%s\n%s", x.fault, strings.Join(x.trace, "\n"))
			}
		})
	}
}

// TestExploreAuditsFindsFaults takes one rule of the audits away at a time, and expects the search
// to say what breaks.
func TestExploreAuditsFindsFaults(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("nightly")
	}
	for _, c := range []struct {
		name, want string
		world      auditsWorld
		more       func(*explorer, *world)
		plant      plant
	}{
		{
			name: "HAVE before the audit's answer", want: "Ia", world: auditsWorld{all: true},
			plant: plant{before: inDrafts(haveUnchecked)},
		},
		{
			name: "HAVE before the audit's answer, the liar leads", want: "Ia", world: auditsWorld{liarLeads: true},
			plant: plant{before: inDrafts(haveUnchecked)},
		},
		{
			name: "an accusation is believed without its proof", want: "Ib", world: auditsWorld{},
			more: func(x *explorer, _ *world) { x.audits.believe = true },
		},
		{
			name: "owners' signatures are not checked", want: "Ib", world: auditsWorld{liarLeads: true, all: true},
			more: (*explorer).gullible,
		},
		{
			name: "a leader keeps a contributor that hides", want: "Ic", world: auditsWorld{},
			more:  func(x *explorer, _ *world) { x.audits.stubborn = true },
			plant: plant{before: stubborn},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, w := newAuditsWorld(t, c.world)
			x.limit, x.continueOne, x.plant = 20_000, 50, c.plant
			if c.more != nil {
				c.more(x, w)
			}
			begun := time.Now()
			x.explore(w)
			if !strings.HasPrefix(x.fault, c.want) {
				t.Fatalf("found %q after %d worlds, not %s", x.fault, x.worlds, c.want)
			}
			t.Logf("%s, after %d worlds, %v:\n%s", x.fault, x.worlds, time.Since(begun), strings.Join(x.trace, "\n"))
		})
	}
}

// TestExploreLateAuditDoesNotStopTheHeight has two honest electors and the liar give HAVE for a
// record, which one of them votes for. From then on the liar shows nobody what it has contributed,
// and the third elector never gets to check it. If it refused the record for that, though it comes
// with a QC, nothing would be decided.
func TestExploreLateAuditDoesNotStopTheHeight(t *testing.T) {
	for _, planted := range []bool{false, true} {
		x, w := newAuditsWorld(t, auditsWorld{})
		if planted {
			x.plant.before = refusesUnchecked
		}
		x.terms = 1
		lead := x.locals[w.peers[x.honest(w)[0]]].m.open.leader(0).Peer
		var others []string
		for _, p := range x.honest(w) {
			if x.ids[p] != lead {
				others = append(others, labName(x.ids[p]))
			}
		}
		l, b, c := labName(lead), others[0], others[1]
		w = x.play(t, w,
			"the liar . to "+l+": SEGMENT", l+"'s audit .* finds 0 false, is not shown those of $",
			b+"'s audit .* finds 0 false, is not shown those of $",
			c+"'s audit .* finds 0 false, is not shown those of .$",
			b+" to "+l+": HAVE", "the liar . to "+l+": HAVE", l+" to "+b+": PROPOSE",
			"term 0 is over for "+b, "term 0 is over for "+c, "term 0 is over for "+l)
		terms, decided := x.goesOn(w, true, 1<<len(x.ids)-1, longestFair)
		if x.fault != "" || decided == planted {
			t.Errorf("planted %v, decided %v in term %d %s", planted, decided, terms, x.fault)
		}
	}
}
