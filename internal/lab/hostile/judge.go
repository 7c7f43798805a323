package hostile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Names of the checks of a run with hostile peers.
const (
	CheckCame    = "the attack came about"
	CheckPlaces  = "honest peers keep their places"
	CheckShares  = "honest contributions count"
	CheckOwners  = "no peer reduces alone"
	CheckSaid    = "what was seen is said"
	CheckProof   = "a liar with proof is evicted"
	CheckBlame   = "nobody is called a liar without proof"
	CheckNamed   = "no honest peer stands out"
	CheckBranch  = "nobody moves to another branch"
	CheckHidden  = "what is not shown does not count"
	CheckCost    = "an attack costs little time"
	maxLeftAside = 1 // honest contributions that a slot may lack: as many as may be late
)

// Story is what is known in the end of a run with hostile peers.
type Story struct {
	Kind
	Honest []Log
	Foes   []string // IDs
	From   uint64   // the newest slot when the attack began
	Share  int      // of newcomers in a step, per mille
	Folder string   // of the hostile peers
}

// Log is what an honest peer's events say.
type Log struct {
	ID    string
	Lines []eventlog.Line
}

// Check is one thing that must hold, with what speaks against it, or how much was checked.
type Check struct {
	Name   string
	Faults []string
	Fine   string
}

// Judge holds what the honest peers' logs say against what must hold.
func (s *Story) Judge() []Check {
	return []Check{
		s.checkCame(), s.checkPlaces(), s.checkShares(), s.checkStrangers(), s.checkLeftOut(), s.checkHidden(),
		s.checkOwners(), s.checkBranch(), s.checkSaid(), s.checkProof(), s.checkBlame(), s.checkNamed(), s.checkCost(),
	}
}

// Deeds counts what the hostile peers did.
func (s *Story) Deeds() (n int) {
	for _, foe := range s.Foes {
		n += strings.Count(Deeds(s.Folder, foe), "\n")
	}
	return n
}

func (s *Story) checkCame() Check {
	c := Check{Name: CheckCame, Fine: fmt.Sprintf("%d times", s.Deeds())}
	if s.Deeds() == 0 {
		c.Faults = []string{"the hostile peer had no occasion: run it again, with more slots"}
	}
	return c
}

// checkPlaces says whether all honest peers are members of the newest record in their logs.
func (s *Story) checkPlaces() Check {
	var newest eventlog.Line
	for _, p := range s.Honest {
		for _, l := range p.Lines {
			if l.Event == "members.changed" && l.Height >= newest.Height {
				newest = l
			}
		}
	}
	c := Check{Name: CheckPlaces, Fine: fmt.Sprintf("%d members", len(newest.Members))}
	for i, p := range s.Honest {
		if !slices.Contains(newest.Members, p.ID) {
			c.Faults = append(c.Faults, fmt.Sprintf("peer %d is no member any more", i+1))
		}
	}
	return c
}

// eachSlot is what the honest peers' logs say of the slots of the attack: the plans before each
// commit, and the commit.
func (s *Story) eachSlot(look func(plans []eventlog.Line, commit eventlog.Line)) {
	seen := map[uint64]bool{}
	for _, p := range s.Honest {
		plans := map[uint64][]eventlog.Line{}
		for _, l := range p.Lines {
			switch {
			case l.Event == "slot.planned":
				plans[l.Slot] = append(plans[l.Slot], l)
			case l.Event == "slot.committed" && l.Slot > s.From && !seen[l.Slot]:
				seen[l.Slot] = true
				look(plans[l.Slot], l)
			}
		}
	}
}

func (s *Story) checkShares() Check {
	c := Check{Name: CheckShares}
	s.eachSlot(func(_ []eventlog.Line, commit eventlog.Line) {
		if n := s.honest(commit); n < len(s.Honest)-maxLeftAside {
			c.Faults = append(c.Faults, fmt.Sprintf("slot %d has contributions of %d of %d honest peers", commit.Slot, n,
				len(s.Honest)))
		}
	})
	return c
}

// honest counts the honest peers whose contributions a committed slot has.
func (s *Story) honest(commit eventlog.Line) int {
	return contributed(commit, func(id string) bool {
		return slices.ContainsFunc(s.Honest, func(p Log) bool { return p.ID == id })
	})
}

// foes counts the hostile peers whose contributions a committed slot has.
func (s *Story) foes(commit eventlog.Line) int {
	return contributed(commit, func(id string) bool { return slices.Contains(s.Foes, id) })
}

func contributed(commit eventlog.Line, by func(id string) bool) (n int) {
	var ids []string
	_ = json.Unmarshal(commit.Contributors, &ids) // events of this program
	for _, id := range ids {
		if by(id) {
			n++
		}
	}
	return n
}

func (s *Story) checkOwners() Check {
	c := Check{Name: CheckOwners}
	s.eachSlot(func(plans []eventlog.Line, commit eventlog.Line) {
		if n := len(plans); n > 0 && plans[n-1].Owners == 1 {
			c.Faults = append(c.Faults, fmt.Sprintf("slot %d was reduced by one peer", commit.Slot))
		}
	})
	return c
}

// checkHidden says whether what a hostile peer did not show counts.
func (s *Story) checkHidden() Check {
	c := Check{Name: CheckHidden}
	if slots := s.deedSlots(s.Foes[0], ""); s.LeftOut && len(slots) > 0 {
		s.eachSlot(func(_ []eventlog.Line, commit eventlog.Line) {
			if commit.Slot > slots[0] && s.foes(commit) > 0 {
				c.Faults = append(c.Faults, fmt.Sprintf("slot %d has it", commit.Slot))
			}
		})
	}
	return c
}

// checkCost says whether the attack cost the slots no more terms and reductions than it may.
func (s *Story) checkCost() Check {
	slots, terms, reductions := 0.0, 0.0, 0.0
	s.eachSlot(func(plans []eventlog.Line, commit eventlog.Line) {
		slots++
		terms += float64(slot.Ref{Ballot: commit.Ballot}.Term())
		reductions += float64(max(0, len(plans)-1))
	})
	c := Check{Name: CheckCost, Fine: fmt.Sprintf("%.0f slots took %.0f more terms and %.0f more reductions", slots, terms,
		reductions)}
	if terms > slots*cmp.Or(s.Terms, usualTerms) || reductions > slots*cmp.Or(s.Reductions, usualReductions) {
		c.Faults = []string{c.Fine}
	}
	return c
}

// all are the different sentences in which honest peers say something for which about holds.
func (s *Story) all(about func(l eventlog.Line) bool) (sentences []string) {
	for _, p := range s.Honest {
		for _, l := range p.Lines {
			said := strings.TrimSpace(l.Event + " " + l.Detail)
			if about(l) && !slices.Contains(sentences, said) {
				sentences = append(sentences, said)
			}
		}
	}
	return sentences
}

func (s *Story) aboutHostile(l eventlog.Line) bool { return slices.Contains(s.Foes, l.About) }

// Said is all that honest peers say of hostile ones.
func (s *Story) Said() []string { return s.all(s.aboutHostile) }

func (s *Story) checkBranch() Check {
	return Check{Name: CheckBranch, Faults: s.all(func(l eventlog.Line) bool { return l.Event == "run.switched" })}
}

// NotChecked begins the detail of a check that holds because there was nothing to check.
const NotChecked = "not checked: "

// names says whether an event about hostile peers names them as is expected.
func (e Expected) names(l eventlog.Line) bool {
	return slices.ContainsFunc([]string{l.Event, l.Finding, l.Reason}, func(word string) bool {
		return slices.Contains(e.Named, word)
	})
}

func (s *Story) checkSaid() Check {
	if s.Named == nil {
		return Check{Name: CheckSaid}
	}
	until := s.From + s.Within
	said := s.all(func(l eventlog.Line) bool {
		return (s.Within == 0 || l.Slot <= until) && s.aboutHostile(l) && s.names(l)
	})
	if len(said) > 0 {
		return Check{Name: CheckSaid, Fine: strings.Join(said, "; ")}
	}
	if deeds := s.Deeds(); deeds < s.After {
		return Check{Name: CheckSaid, Fine: fmt.Sprintf("%stoo few deeds: %d, and %d are needed", NotChecked, deeds, s.After)}
	}
	when := ""
	if s.Within > 0 {
		when = fmt.Sprintf(" until slot %d", until)
	}
	return Check{Name: CheckSaid, Faults: []string{fmt.Sprintf("no event about the hostile peer%s has any of: %s", when,
		strings.Join(s.Named, ", "))}}
}

func (s *Story) checkProof() Check {
	said := s.all(func(l eventlog.Line) bool { return l.Event == evicted && s.aboutHostile(l) })
	c := Check{Name: CheckProof, Fine: strings.Join(said, "; ")}
	if s.Evicted && len(said) == 0 {
		c.Faults = []string{"there is a proof of what it did, and no honest peer evicted it"}
	}
	return c
}

// checkBlame says whether honest peers called anybody a liar or cloned who gave no proof of it.
func (s *Story) checkBlame() Check {
	return Check{Name: CheckBlame, Faults: s.all(func(l eventlog.Line) bool {
		gaveProof := (s.Evicted || s.MayProve) && s.aboutHostile(l)
		return l.Event == "peer.cloned" || l.Event == evicted && !gaveProof
	})}
}

// checkNamed says whether honest peers said of an honest one that what it contributes stands out.
func (s *Story) checkNamed() Check {
	return Check{Name: CheckNamed, Faults: s.all(func(l eventlog.Line) bool {
		return l.Event == standsOut && !s.aboutHostile(l)
	})}
}
