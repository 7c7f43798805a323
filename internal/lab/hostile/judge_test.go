package hostile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// siege is the story of four honest peers, whose logs say that slots 6 and 7 went well after an
// attack of peer-5 that began after slot 5.
func siege(t *testing.T) *Story {
	t.Helper()
	s := &Story{Foes: []string{"peer-5"}, From: 5, Share: 334, Folder: t.TempDir()}
	s.did(t, "height 7: no HAVE\n")
	members := []string{"peer-1", "peer-2", "peer-3", "peer-4"}
	for _, id := range members {
		p := Log{ID: id, Lines: []eventlog.Line{{Event: "members.changed", Members: members}}}
		for n := uint64(6); n <= 7; n++ {
			p.Lines = append(p.Lines, planned(n, 4), eventlog.Line{
				Event: "slot.committed", Slot: n, Contributors: []byte(`["peer-1","peer-2","peer-4","peer-5"]`),
			})
		}
		s.Honest = append(s.Honest, p)
	}
	return s
}

// did has peer-5 do something.
func (s *Story) did(t *testing.T, deeds string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.Folder, "deeds-peer-5"), []byte(deeds), 0o600); err != nil {
		t.Fatal(err)
	}
}

// change makes one thing of a siege different.
type change func(*Story)

func hears(l eventlog.Line) change {
	return func(s *Story) { s.Honest[1].Lines = append(s.Honest[1].Lines, l) }
}

func says(event, about, detail string) change {
	return hears(eventlog.Line{Event: event, About: about, Detail: detail})
}

// gives is a reason to suspect a peer, in a slot.
func gives(slot uint64, about, reason string) change {
	return hears(eventlog.Line{Event: "peer.suspected", About: about, Slot: slot, Reason: reason, Detail: "any words"})
}

// stands is a finding about a peer.
func stands(about, finding string) change {
	return hears(eventlog.Line{Event: standsOut, About: about, Finding: finding, Detail: "any words"})
}

func within(slots uint64) change { return func(s *Story) { s.Within = slots } }

// each changes all lines of an event.
func (s *Story) each(event string, change func(*eventlog.Line)) {
	for _, p := range s.Honest {
		for i := range p.Lines {
			if p.Lines[i].Event == event {
				change(&p.Lines[i])
			}
		}
	}
}

// outnumbered has four strangers, of whom so many contribute to the slots, and three others.
func outnumbered(n int) change {
	return func(s *Story) {
		s.Few, s.Honest, s.Foes = true, s.Honest[:3], []string{"peer-5", "peer-6", "peer-7", "peer-8"}
		list, _ := json.Marshal(append([]string{"peer-1", "peer-2", "peer-3"}, s.Foes[:n]...))
		s.each("slot.committed", func(l *eventlog.Line) { l.Contributors = list })
	}
}

// electing has slot 6 leave so many electors.
func electing(n int) change {
	return func(s *Story) {
		for i := range s.Honest {
			p := &s.Honest[i]
			p.Lines = slices.Insert(p.Lines, 2, eventlog.Line{Event: "record.certified", Slot: 6, Electors: n})
		}
	}
}

// blindly has only two honest peers contribute to slot 6.
func blindly(s *Story) {
	s.each("slot.committed", func(l *eventlog.Line) {
		if l.Slot == 6 {
			l.Contributors = []byte(`["peer-1","peer-2","peer-5"]`)
		}
	})
}

func wanted(words ...string) change { return func(s *Story) { s.Named = words } }
func proven(s *Story)               { s.Evicted = true }
func mayProve(s *Story)             { s.MayProve = true }

func usurped(s *Story) {
	s.each("members.changed", func(l *eventlog.Line) { l.Members = []string{"peer-5"} })
}

// costly has slot 6 decided in a ballot, after so many plans.
func costly(ballot uint32, plans int) change {
	return func(s *Story) {
		s.each("slot.committed", func(l *eventlog.Line) {
			if l.Slot == 6 {
				l.Ballot = ballot
			}
		})
		for i := range s.Honest {
			p := &s.Honest[i]
			p.Lines = slices.Insert(p.Lines, 1, slices.Repeat([]eventlog.Line{planned(6, 4)}, plans-1)...)
		}
	}
}

// hiding has peer-5 show nothing of its contribution to a slot.
func hiding(t *testing.T, n int) change {
	return func(s *Story) {
		s.LeftOut = true
		s.did(t, fmt.Sprintf("slot %d: auditors are shown nothing of it\n", n))
	}
}

// line puts a line in the place of one of the first peer's: of each slot the plan and the commit.
func line(at int, l eventlog.Line) change { return func(s *Story) { s.Honest[0].Lines[1+at] = l } }

func planned(slot uint64, owners int) eventlog.Line {
	return eventlog.Line{Event: "slot.planned", Slot: slot, Owners: owners}
}

// TestJudge: each check fails for what it is for, and no other does.
func TestJudge(t *testing.T) {
	alone := eventlog.Line{Event: "slot.committed", Slot: 7, Contributors: []byte(`["peer-5"]`)}
	cases := map[string]struct {
		change []change
		fails  string
		detail string
	}{
		"all is well":          {},
		"no occasion":          {[]change{func(s *Story) { s.did(t, "") }}, CheckCame, "no occasion"},
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
		"moved":                {[]change{says("run.switched", "", "heavier")}, CheckBranch, "heavier"},
		"a term, two plans":    {[]change{costly(slot.Tries, 3)}, "", ""},
		"three terms":          {[]change{costly(3*slot.Tries, 1)}, CheckCost, "2 slots took 3 more terms and 0"},
		"three more plans":     {[]change{costly(0, 4)}, CheckCost, "2 slots took 0 more terms and 3 more"},
		"hidden, and counts":   {[]change{hiding(t, 6)}, CheckHidden, "slot 7 has it"},
		"hidden at last":       {[]change{hiding(t, 7)}, "", ""},

		"not said":            {[]change{wanted("mute")}, CheckSaid, "mute"},
		"said":                {[]change{wanted("mute"), gives(6, "peer-5", "mute")}, "", ""},
		"said of another one": {[]change{wanted("mute"), gives(6, "peer-4", "mute")}, CheckSaid, "mute"},
		"another reason":      {[]change{wanted("mute"), gives(6, "peer-5", "lost")}, CheckSaid, "mute"},
		"words only":          {[]change{wanted("mute"), says("peer.suspected", "peer-5", "mute")}, CheckSaid, "mute"},

		"it stands out":   {[]change{wanted("too_large"), stands("peer-5", "too_large")}, "", ""},
		"another finding": {[]change{wanted("too_large"), stands("peer-5", "opposite")}, CheckSaid, "too_large"},

		"said in time":        {[]change{wanted("mute"), within(2), gives(7, "peer-5", "mute")}, "", ""},
		"said too late":       {[]change{wanted("mute"), within(2), gives(8, "peer-5", "mute")}, CheckSaid, "2 slots"},
		"an honest one named": {[]change{stands("peer-3", "zeros")}, CheckNamed, "any words"},
		"one without an ID": {
			[]change{func(s *Story) { s.Foes = append(s.Foes, "") }, stands("", "zeros")},
			CheckNamed, "any words",
		},

		"a liar that stays":     {[]change{proven}, CheckProof, "no honest peer evicted it"},
		"a liar evicted":        {[]change{proven, says(evicted, "peer-5", "it signed two")}, "", ""},
		"evicted for promises":  {[]change{mayProve, says(evicted, "peer-5", "it signed two")}, "", ""},
		"evicted without proof": {[]change{says("peer.evicted", "peer-5", "it signed two")}, CheckBlame, "signed"},
		"an honest peer evicted": {
			[]change{proven, says(evicted, "peer-5", "it signed two"), says("peer.evicted", "peer-3", "y")},
			CheckBlame, "y",
		},
		"an honest peer cloned": {[]change{says("peer.cloned", "peer-2", "z")}, CheckBlame, "z"},
	}
	var found []string
	for name, c := range cases {
		found = append(found, c.fails)
		t.Run(name, func(t *testing.T) {
			s := siege(t)
			for _, change := range c.change {
				change(s)
			}
			for _, check := range s.Judge() {
				faults := strings.Join(check.Faults, "; ")
				if (faults == "") != (check.Name != c.fails) || !strings.Contains(faults, c.detail) && faults != "" {
					t.Errorf("%s: %q", check.Name, faults)
				}
			}
		})
	}
	for _, check := range siege(t).Judge() {
		if !slices.Contains(found, check.Name) {
			t.Errorf("nothing tries %q", check.Name)
		}
	}
}

// TestWhatIsSaidIsDocumented: the judge looks for names that events have.
func TestWhatIsSaidIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/events.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		for _, word := range k.Named {
			if !strings.Contains(string(page), "`"+word+"`") {
				t.Errorf("%s: events.md has no %s", k.Name, word)
			}
		}
	}
}

// TestTooFewDeeds: where an attack did too little for anything to be said of it, the report says
// that this was not checked.
func TestTooFewDeeds(t *testing.T) {
	s := siege(t)
	s.Named, s.After = []string{"mute"}, 3
	c := s.checkSaid()
	if want := "not checked: too few deeds: 1, and 3 are needed"; c.Faults != nil || c.Fine != want {
		t.Errorf("%+v, want %s", c, want)
	}
	gives(6, "peer-5", "mute")(s)
	if c := s.checkSaid(); c.Faults != nil || !strings.Contains(c.Fine, "any words") {
		t.Errorf("it was said: %+v", c)
	}
}
