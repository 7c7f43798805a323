package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// siege is an assault of four honest peers, whose logs say that slots 6 and 7 went well after an
// attack of peer-5 that began after slot 5.
func siege() *assault {
	a := &assault{
		runner: paper(4), from: 5, attack: attack{name: "mute", peers: 1},
		foes: []*node{{Peer: &swarm.Peer{ID: "peer-5"}}},
	}
	for _, p := range a.nodes {
		for slot := uint64(6); slot <= 7; slot++ {
			p.lines = append(p.lines, planned(slot, 4), eventlog.Line{
				Event: "slot.committed", Slot: slot, Contributors: []byte(`["peer-1","peer-2","peer-4","peer-5"]`),
			})
		}
	}
	return a
}

func (a *assault) checks() []Check {
	return []Check{
		a.checkCame(a.attack.peers), a.checkPlaces(), a.checkShares(), a.checkStrangers(), a.checkLeftOut(),
		a.checkOwners(), a.checkBranch(), a.checkSaid(),
		a.checkProof(), a.checkBlame(), a.checkNamed(),
	}
}

// change makes one thing of a siege different.
type change func(*assault)

func says(event, about, detail string) change {
	return func(a *assault) {
		a.nodes[1].heard = append(a.nodes[1].heard, eventlog.Line{Event: event, About: about, Detail: detail})
	}
}

// gives is a reason to suspect a peer, in a slot.
func gives(slot uint64, about, reason string) change {
	return func(a *assault) {
		a.nodes[1].heard = append(a.nodes[1].heard, eventlog.Line{
			Event: "peer.suspected", About: about, Slot: slot, Reason: reason, Detail: "any words",
		})
	}
}

// stands is a finding about a peer.
func stands(about, finding string) change {
	return func(a *assault) {
		a.nodes[1].heard = append(a.nodes[1].heard, eventlog.Line{
			Event: standsOut, About: about, Finding: finding, Detail: "any words",
		})
	}
}

func within(slots uint64) change { return func(a *assault) { a.attack.within = slots } }

// outnumbered has four strangers, of whom so many contribute to the slots, and three others.
func outnumbered(n int) change {
	return func(a *assault) {
		a.attack.few, a.nodes, a.foes = true, a.nodes[:3], nil
		for i := range 4 {
			a.foes = append(a.foes, &node{Peer: &swarm.Peer{ID: fmt.Sprintf("stranger-%d", i+1)}})
		}
		named := []string{"peer-1", "peer-2", "peer-3"}
		for _, p := range a.foes[:n] {
			named = append(named, p.ID)
		}
		list, _ := json.Marshal(named) // it never fails
		for _, p := range a.nodes {
			for i := range p.lines {
				if p.lines[i].Event == "slot.committed" {
					p.lines[i].Contributors = list
				}
			}
		}
	}
}

// electing has slot 6 leave so many electors.
func electing(n int) change {
	return func(a *assault) {
		for _, p := range a.nodes {
			p.lines = slices.Insert(p.lines, 1, eventlog.Line{Event: "record.certified", Slot: 6, Electors: n})
		}
	}
}

// blindly has only two honest peers contribute to slot 6.
func blindly(a *assault) {
	for _, p := range a.nodes {
		for i := range p.lines {
			if l := &p.lines[i]; l.Event == "slot.committed" && l.Slot == 6 {
				l.Contributors = []byte(`["peer-1","peer-2","stranger-1"]`)
			}
		}
	}
}

func wanted(words ...string) change { return func(a *assault) { a.attack.said = words } }
func usurped(a *assault)            { a.ledger.members = []string{"peer-5"} }
func proven(a *assault)             { a.attack.proof = true }
func mayProve(a *assault)           { a.attack.mayProve = true }

// line puts a line in the place of one of the first peer's: of each slot the plan and the commit.
func line(at int, l eventlog.Line) change { return func(a *assault) { a.nodes[0].lines[at] = l } }

func planned(slot uint64, owners int) eventlog.Line {
	return eventlog.Line{Event: "slot.planned", Slot: slot, Owners: owners}
}

// TestJudge: each check fails for what it is for, and no other does.
func TestJudge(t *testing.T) {
	alone := eventlog.Line{Event: "slot.committed", Slot: 7, Contributors: []byte(`["peer-5"]`)}
	moved := func(a *assault) {
		a.nodes[2].lines = append(a.nodes[2].lines, eventlog.Line{Event: "run.switched", Slot: 6})
	}
	for name, c := range map[string]struct {
		change []change
		fails  string
		detail string
	}{
		"all is well":          {},
		"no occasion":          {[]change{func(a *assault) { a.attack.peers = 0 }}, CheckCame, "no occasion"},
		"usurped":              {[]change{usurped}, CheckPlaces, "peer 1"},
		"alone":                {[]change{line(3, alone)}, CheckShares, "slot 7 has contributions of 0 of 4"},
		"strangers in turns":   {[]change{outnumbered(1)}, "", ""},
		"strangers outnumber":  {[]change{outnumbered(2)}, CheckStrange, "2 newcomers beside 3"},
		"strangers do nothing": {[]change{outnumbered(0)}, CheckStrange, "no slot has a contribution"},
		"a stranger votes":     {[]change{outnumbered(1), electing(4)}, CheckStrange, "1 of them have a vote"},
		"one votes, one comes": {[]change{outnumbered(2), electing(4), blindly}, "", ""},
		"and two come":         {[]change{outnumbered(4), electing(4), blindly}, CheckStrange, "3 newcomers beside 4"},
		"owns it all":          {[]change{line(0, planned(6, 1))}, CheckOwners, "slot 6"},
		"another plan":         {[]change{line(0, planned(5, 1))}, "", ""},
		"moved":                {[]change{moved}, CheckBranch, "peer 3 at slot 6"},

		"not said":            {[]change{wanted("mute")}, CheckSaid, "mute"},
		"said":                {[]change{wanted("mute"), gives(6, "peer-5", "mute")}, "", ""},
		"said of another one": {[]change{wanted("mute"), gives(6, "peer-4", "mute")}, CheckSaid, "mute"},
		"another reason":      {[]change{wanted("mute"), gives(6, "peer-5", "lost")}, CheckSaid, "mute"},
		"words only":          {[]change{wanted("mute"), says("peer.suspected", "peer-5", "mute")}, CheckSaid, "mute"},

		"it stands out":   {[]change{wanted("too_large"), stands("peer-5", "too_large")}, "", ""},
		"another finding": {[]change{wanted("too_large"), stands("peer-5", "opposite")}, CheckSaid, "too_large"},
		"objected":        {[]change{wanted(objected), says(objected, "peer-5", "any words")}, "", ""},
		"nobody objects":  {[]change{wanted(objected), says("peer.waits", "peer-5", objected)}, CheckSaid, objected},

		"said in time":        {[]change{wanted("mute"), within(2), gives(7, "peer-5", "mute")}, "", ""},
		"said too late":       {[]change{wanted("mute"), within(2), gives(8, "peer-5", "mute")}, CheckSaid, "until slot 7"},
		"an honest one named": {[]change{stands("peer-3", "zeros")}, CheckNamed, "any words"},

		"a liar that stays":     {[]change{proven}, CheckProof, "no honest peer evicted it"},
		"a liar evicted":        {[]change{proven, says(evicted, "peer-5", "it signed two")}, "", ""},
		"evicted for promises":  {[]change{mayProve, says(evicted, "peer-5", "it signed two")}, "", ""},
		"evicted without proof": {[]change{says("peer.evicted", "peer-5", "it signed two")}, CheckBlame, "signed"},
		"an honest peer evicted": {
			[]change{proven, says(evicted, "peer-5", "it signed two"), says("peer.evicted", "peer-3", "y")},
			CheckBlame, "y",
		},
		"an honest peer cloned": {[]change{says("peer.cloned", "peer-2", "z")}, CheckBlame, "z"},
	} {
		t.Run(name, func(t *testing.T) {
			a := siege()
			for _, change := range c.change {
				change(a)
			}
			for _, check := range a.checks() {
				if check.OK != (check.Name != c.fails) {
					t.Errorf("%s: %v, %s", check.Name, check.OK, check.Detail)
				}
				if check.Name == c.fails && !strings.Contains(check.Detail, c.detail) {
					t.Errorf("%s: %q", check.Name, check.Detail)
				}
			}
		})
	}
	if c := checkGoesOn(errors.New("hung")); c.OK || c.Name != CheckGoesOn {
		t.Errorf("a run that hung: %+v", c)
	}
}

// TestWhatIsSaidIsDocumented: the judge looks for names that events have.
func TestWhatIsSaidIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations/events.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range attacks {
		for _, word := range a.said {
			if !strings.Contains(string(page), "`"+word+"`") {
				t.Errorf("%s: events.md has no %s", a.name, word)
			}
		}
	}
}

// TestTooFewDeeds: where an attack did too little for anything to be said of it, the report says
// that this was not checked.
func TestTooFewDeeds(t *testing.T) {
	a := siege()
	a.attack.said, a.attack.after = []string{"mute"}, 3
	c := a.checkSaid()
	if want := "not checked: too few deeds: 0, and 3 are needed"; !c.OK || c.Detail != want {
		t.Errorf("%+v, want %s", c, want)
	}
	var b strings.Builder
	Verdict{Attack: "mute", Withstood: true, Checks: []Check{c, {Name: CheckBranch, OK: true}}}.print(&b)
	if got := b.String(); !strings.Contains(got, "what was seen is said: not checked") ||
		strings.Contains(got, CheckBranch) {
		t.Errorf("the report is %q", got)
	}
	gives(6, "peer-5", "mute")(a)
	if c := a.checkSaid(); !c.OK || !strings.Contains(c.Detail, "any words") {
		t.Errorf("it was said: %+v", c)
	}
}

func TestParseAttacks(t *testing.T) {
	got, err := ParseAttacks("hostile", "grab, mute,grab", 1)
	if err != nil || !slices.Equal(got, []Attack{"grab", "mute"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if all, err := ParseAttacks("hostile", "all", 1); err != nil || !slices.Equal(all, Attacks()) {
		t.Errorf("all are %v, %v", all, err)
	}
	table, err := ParseAttacks("known", "table", 1)
	if err != nil || !slices.Equal(table, known()) {
		t.Errorf("the table is %v, %v", table, err)
	}
	_, err = ParseAttacks("hostile", "grab,nap", 1)
	if err == nil || !strings.Contains(err.Error(), `"nap" is none of mute,`) {
		t.Errorf("an unknown attack: %v", err)
	}
}

// TestDrawnAttacks: a seed draws three different ones, in the order of the table, and with enough
// seeds each has its turn.
func TestDrawnAttacks(t *testing.T) {
	seen := map[Attack]bool{}
	for seed := uint64(1); seed <= 100; seed++ {
		names, err := ParseAttacks("hostile", "three", seed)
		again, _ := ParseAttacks("hostile", "three", seed)
		place := func(a Attack) int { return slices.Index(Attacks(), a) }
		if err != nil || len(names) != 3 || !slices.Equal(names, again) ||
			!slices.IsSortedFunc(names, func(a, b Attack) int { return place(a) - place(b) }) {
			t.Fatalf("seed %d: %v, then %v, %v", seed, names, again, err)
		}
		for _, a := range names {
			seen[a] = true
		}
	}
	if len(seen) != len(Attacks()) {
		t.Errorf("100 seeds draw %v", seen)
	}
}

// TestRuling: an attack that is not withstood is never called anything else.
func TestRuling(t *testing.T) {
	for want, v := range map[string]Verdict{
		"withstood": {Withstood: true},
		"withstood, though the table says that it is not: why": {Withstood: true, Known: true, Open: "why"},
		"NOT withstood":                       {Open: "why"},
		"NOT withstood, as is known: why":     {Known: true, Open: "why"},
		"NOT withstood, which --known allows": {Known: true},
	} {
		if got := v.ruling(); got != want {
			t.Errorf("%+v: %q, want %q", v, got, want)
		}
	}
}
