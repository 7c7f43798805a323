package hostile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
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
	CheckStrange = "newcomers stay within their share"
	CheckHidden  = "what is not shown does not count"
	CheckOwners  = "no peer reduces alone"
	CheckSaid    = "what was seen is said"
	CheckProof   = "a liar with proof is evicted"
	CheckBlame   = "nobody is called a liar without proof"
	CheckNamed   = "no honest peer stands out"
	CheckBranch  = "nobody moves to another branch"
	CheckCost    = "an attack costs little time"
)

const (
	maxLeftAside = 1 // honest contributions that a slot may lack: as many as may be late
	minFounders  = 3 // as many as strangers join: owners mark beside no fewer
)

// NotChecked begins the detail of a check that holds because there was nothing to check.
const NotChecked = "not checked: "

// Story is what is known in the end of a run with hostile peers.
type Story struct {
	Kind
	Honest []Log
	Foes   []string // IDs, empty until they are known
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

func (c *Check) fault(format string, args ...any) {
	c.Faults = append(c.Faults, fmt.Sprintf(format, args...))
}

// Judge holds what the honest peers' logs say against what must hold.
func (s *Story) Judge() []Check {
	came := Check{Name: CheckCame, Fine: fmt.Sprintf("%d times", s.Deeds())}
	if s.Deeds() == 0 {
		came.fault("the hostile peer had no occasion: run it again, with more slots")
	}
	steps := s.steps()
	checks := append(s.checkSteps(steps), s.checkPlaces(), s.checkSaid())
	if s.Few {
		checks = append(checks, s.checkStrangers(steps))
	}
	proven := s.all(func(l eventlog.Line) bool { return l.Event == evicted && s.aboutHostile(l) })
	proof := Check{Name: CheckProof, Fine: strings.Join(proven, "; ")}
	if s.Evicted && proven == nil {
		proof.fault("there is a proof of what it did, and no honest peer evicted it")
	}
	return append(append([]Check{came}, checks...), proof,
		Check{Name: CheckBranch, Faults: s.all(func(l eventlog.Line) bool { return l.Event == "run.switched" })},
		Check{Name: CheckBlame, Faults: s.all(func(l eventlog.Line) bool {
			gaveProof := (s.Evicted || s.MayProve) && s.aboutHostile(l)
			return l.Event == "peer.cloned" || l.Event == evicted && !gaveProof
		})},
		Check{Name: CheckNamed, Faults: s.all(func(l eventlog.Line) bool {
			return l.Event == standsOut && !s.aboutHostile(l)
		})})
}

// Deeds counts what the hostile peers did.
func (s *Story) Deeds() (n int) {
	for _, foe := range s.Foes {
		n += strings.Count(Deeds(s.Folder, foe), "\n")
	}
	return n
}

// Said is all that honest peers say of hostile ones.
func (s *Story) Said() []string { return s.all(s.aboutHostile) }

func (s *Story) aboutHostile(l eventlog.Line) bool {
	return l.About != "" && slices.Contains(s.Foes, l.About)
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

// step is what honest peers' logs say of a slot of the attack.
type step struct {
	slot.Ref     // of the commit
	slot         uint64
	plans        []eventlog.Line // before the commit
	electors     int             // that decided on it
	honest, foes int             // whose contributions it has
}

// steps are those of all slots of the attack, in order.
func (s *Story) steps() []step {
	all := map[uint64]step{}
	for _, p := range s.Honest {
		plans, electors := map[uint64][]eventlog.Line{}, 0
		for _, l := range p.Lines {
			electors = cmp.Or(l.Electors, electors) // of certified records
			switch n := l.Slot; {
			case l.Event == "slot.planned":
				l.Electors = electors
				plans[n] = append(plans[n], l)
			case l.Event == "slot.committed" && n > s.From && len(all[n].plans) == 0:
				all[n] = s.step(l, plans[n])
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b step) int { return cmp.Compare(a.slot, b.slot) })
}

func (s *Story) step(commit eventlog.Line, plans []eventlog.Line) step {
	st := step{slot: commit.Slot, plans: plans}
	st.Ballot = commit.Ballot
	for _, l := range plans {
		st.electors = l.Electors
	}
	var ids []string
	_ = json.Unmarshal(commit.Contributors, &ids) // events of this program
	for _, id := range ids {
		if slices.Contains(s.Foes, id) {
			st.foes++
		} else {
			st.honest++
		}
	}
	return st
}

// checkSteps says whether steps have the contributions and owners that they should, and took no
// more terms and reductions than they may.
func (s *Story) checkSteps(steps []step) []Check {
	shares, hidden, owners := Check{Name: CheckShares}, Check{Name: CheckHidden}, Check{Name: CheckOwners}
	first := FirstDeed(s.Folder, s.Foes[0])
	slots, terms, reductions := float64(len(steps)), 0.0, 0.0
	for _, st := range steps {
		if st.honest < len(s.Honest)-maxLeftAside {
			shares.fault("slot %d has contributions of %d of %d honest peers", st.slot, st.honest, len(s.Honest))
		}
		if s.LeftOut && first > 0 && st.slot > first && st.foes > 0 {
			hidden.fault("slot %d has it", st.slot)
		}
		n := len(st.plans)
		if n > 0 && st.plans[n-1].Owners == 1 {
			owners.fault("slot %d was reduced by one peer", st.slot)
		}
		terms += float64(st.Term())
		reductions += float64(max(0, n-1))
	}
	cost := Check{Name: CheckCost, Fine: fmt.Sprintf("%.0f slots took %.0f more terms and %.0f more reductions", slots,
		terms, reductions)}
	if terms > slots*usualTerms || reductions > slots*cmp.Or(s.Reductions, usualReductions) {
		cost.Faults = []string{cost.Fine}
	}
	return []Check{shares, hidden, owners, cost}
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
			c.fault("peer %d is no member any more", i+1)
		}
	}
	return c
}

// checkStrangers says whether a slot was committed with more contributions of hostile newcomers
// than the spec lets in beside the others, and whether one of them has earned a vote. Owners mark
// what points the other way only where three with a vote contribute. So a slot with fewer of these,
// as a busy machine has, may earn a stranger its vote (docs/why/holes.md).
func (s *Story) checkStrangers(steps []step) Check {
	c := Check{Name: CheckStrange}
	most, blind, voters := 0, false, 0
	for _, st := range steps {
		seats := max(0, st.electors-len(s.Honest))
		most, voters = max(most, st.foes), max(voters, seats)
		if seats > 0 && !blind {
			c.fault("%d of them have a vote in slot %d", seats, st.slot)
		}
		seats = min(seats, st.foes)
		if fresh, others := st.foes-seats, st.honest+seats; fresh > max(1, others*s.Share/1000) {
			c.fault("slot %d has contributions of %d newcomers beside %d others", st.slot, fresh, others)
		}
		blind = blind || st.foes > 0 && st.honest < minFounders
	}
	if most == 0 {
		c.fault("no slot has a contribution of theirs")
	}
	c.Fine = fmt.Sprintf("at most %d in a slot; %d earned a vote in a slot of fewer than %d founders", most, voters,
		minFounders)
	return c
}

func (s *Story) checkSaid() Check {
	c := Check{Name: CheckSaid}
	c.Fine = strings.Join(s.all(func(l eventlog.Line) bool {
		return (s.Within == 0 || l.Slot <= s.From+s.Within) && s.aboutHostile(l) && s.names(l)
	}), "; ")
	switch deeds := s.Deeds(); {
	case s.Named == nil || c.Fine != "":
	case deeds < s.After:
		c.Fine = fmt.Sprintf("%stoo few deeds: %d, and %d are needed", NotChecked, deeds, s.After)
	default:
		c.fault("no event about the hostile peer in %d slots (0: in all) has any of: %s", s.Within,
			strings.Join(s.Named, ", "))
	}
	return c
}

// names says whether an event about hostile peers names them as is expected.
func (e Expected) names(l eventlog.Line) bool {
	return slices.ContainsFunc([]string{l.Event, l.Finding, l.Reason}, func(word string) bool {
		return slices.Contains(e.Named, word)
	})
}
