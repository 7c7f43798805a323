package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// Names of the checks of a run with hostile peers, beside those that every run has.
const (
	CheckCame    = "the attack came about"
	CheckGoesOn  = "the run goes on"
	CheckPlaces  = "honest peers keep their places"
	CheckShares  = "honest contributions count"
	CheckOwners  = "no peer reduces alone"
	CheckSaid    = "what was seen is said"
	CheckProof   = "a liar with proof is evicted"
	CheckBlame   = "nobody is called a liar without proof"
	CheckNamed   = "no honest peer stands out"
	CheckBranch  = "nobody moves to another branch"
	maxLeftAside = 1 // honest contributions that a slot may lack: as many as may be late
)

// judge holds what the honest peers' logs say against what must hold. failure is what ended the run
// early, or nil.
func (a *assault) judge(failure error) Verdict {
	v := Verdict{Attack: a.attack.name, Slots: a.ledger.slot - min(a.from, a.ledger.slot), Deeds: a.deeds()}
	var ends []ending
	var logs [][]eventlog.Line
	var finished []bool
	for _, p := range a.nodes {
		e := p.ending()
		// of a run that stands still all chains count
		ends, logs, finished = append(ends, e), append(logs, p.lines), append(finished, e.finished || failure != nil)
	}
	v.Checks = append([]Check{a.checkCame(v.Deeds), checkGoesOn(failure)},
		verdicts(readHistory(logs, finished), ends, a.cfg.Slots)...)
	v.Checks = append(v.Checks, a.checkPlaces(), a.checkShares(), a.checkStrangers(), a.checkLeftOut(), a.checkOwners(),
		a.checkBranch(), a.checkSaid(),
		a.checkProof(), a.checkBlame(), a.checkNamed(), verdict(CheckExits, a.ended, ""), checkLogs(a.swarm.Logs()))
	v.Withstood = !slices.ContainsFunc(v.Checks, func(c Check) bool { return !c.OK })
	v.Open = a.attack.open
	v.pace(a.ledger, a.from, a.began)
	v.Said = a.all(a.aboutHostile)
	return v
}

func (a *assault) checkCame(deeds int) Check {
	var faults []string
	if deeds == 0 {
		faults = []string{"the hostile peer had no occasion: run it again, with more slots"}
	}
	return verdict(CheckCame, faults, fmt.Sprintf("%d times", deeds))
}

func checkGoesOn(failure error) Check {
	c := checkHang(failure)
	c.Name = CheckGoesOn
	return c
}

// checkPlaces says whether all honest peers are members of the newest record in their logs.
func (a *assault) checkPlaces() Check {
	var faults []string
	for _, p := range a.nodes {
		if !slices.Contains(a.ledger.members, p.ID) {
			faults = append(faults, fmt.Sprintf("peer %d is no member any more", p.n))
		}
	}
	return verdict(CheckPlaces, faults, fmt.Sprintf("%d members", len(a.ledger.members)))
}

// eachSlot is what the honest peers' logs say of the slots of the attack: the newest plan before
// each commit, and the commit.
func (a *assault) eachSlot(look func(plan, commit eventlog.Line)) {
	seen := map[uint64]bool{}
	for _, p := range a.nodes {
		var plan eventlog.Line
		for _, l := range p.lines {
			if l.Event == "slot.planned" {
				plan = l
			}
			if l.Event == "slot.committed" && l.Slot > a.from && !seen[l.Slot] {
				seen[l.Slot] = true
				look(plan, l)
			}
		}
	}
}

func (a *assault) checkShares() Check {
	var faults []string
	a.eachSlot(func(_, commit eventlog.Line) {
		if n := a.contributed(commit, a.nodes); n < len(a.nodes)-maxLeftAside {
			faults = append(faults, fmt.Sprintf("slot %d has contributions of %d of %d honest peers", commit.Slot, n,
				len(a.nodes)))
		}
	})
	return verdict(CheckShares, faults, "")
}

// contributed counts those of some peers whose contributions a committed slot has.
func (a *assault) contributed(commit eventlog.Line, some []*node) (n int) {
	for _, p := range some {
		if strings.Contains(string(commit.Contributors), p.ID) {
			n++
		}
	}
	return n
}

func (a *assault) checkOwners() Check {
	var faults []string
	a.eachSlot(func(plan, commit eventlog.Line) {
		if plan.Slot == commit.Slot && plan.Owners == 1 {
			faults = append(faults, fmt.Sprintf("slot %d was reduced by one peer", commit.Slot))
		}
	})
	return verdict(CheckOwners, faults, "")
}

func (a *assault) checkBranch() Check {
	var faults []string
	for _, p := range a.nodes {
		for _, l := range p.lines {
			if l.Event == "run.switched" {
				faults = append(faults, fmt.Sprintf("peer %d at slot %d: %s", p.n, l.Slot, l.Detail))
			}
		}
	}
	return verdict(CheckBranch, faults, "")
}

// all are the different sentences in which honest peers say something of the peers for which about
// holds.
func (a *assault) all(about func(l eventlog.Line) bool) (sentences []string) {
	for _, p := range a.nodes {
		for _, l := range p.heard {
			s := strings.TrimSpace(l.Event + " " + l.Detail)
			if about(l) && !slices.Contains(sentences, s) {
				sentences = append(sentences, s)
			}
		}
	}
	return sentences
}

func (a *assault) aboutHostile(l eventlog.Line) bool {
	return slices.ContainsFunc(a.foes, func(p *node) bool { return p.ID == l.About })
}

// notChecked begins the detail of a check that holds because there was nothing to check.
const notChecked = "not checked: "

func (a *assault) checkSaid() Check {
	if a.attack.said == nil {
		return Check{Name: CheckSaid, OK: true}
	}
	until := a.from + a.attack.within
	said := a.all(func(l eventlog.Line) bool {
		inTime := a.attack.within == 0 || l.Slot <= until
		return inTime && a.aboutHostile(l) && a.attack.says(l)
	})
	if deeds := a.deeds(); len(said) == 0 && deeds < a.attack.after {
		return Check{CheckSaid, true, fmt.Sprintf("%stoo few deeds: %d, and %d are needed", notChecked, deeds,
			a.attack.after)}
	}
	if len(said) == 0 {
		when := ""
		if a.attack.within > 0 {
			when = fmt.Sprintf(" until slot %d", until)
		}
		return Check{CheckSaid, false, fmt.Sprintf("no event about the hostile peer%s has any of: %s", when,
			strings.Join(a.attack.said, ", "))}
	}
	return Check{CheckSaid, true, strings.Join(said, "; ")}
}

func evicts(l eventlog.Line) bool { return l.Event == evicted }

func (a *assault) checkProof() Check {
	if !a.attack.proof {
		return Check{Name: CheckProof, OK: true}
	}
	said := a.all(func(l eventlog.Line) bool { return evicts(l) && a.aboutHostile(l) })
	if len(said) > 0 {
		return Check{CheckProof, true, strings.Join(said, "; ")}
	}
	return Check{CheckProof, false, "its signatures contradict each other, and no honest peer evicted it"}
}

// checkBlame says whether honest peers called anybody a liar or cloned who gave no proof of it.
func (a *assault) checkBlame() Check {
	return verdict(CheckBlame, a.all(func(l eventlog.Line) bool {
		gaveProof := (a.attack.proof || a.attack.mayProve) && a.aboutHostile(l)
		return l.Event == "peer.cloned" || evicts(l) && !gaveProof
	}), "")
}

// checkNamed says whether honest peers said of an honest one that what it contributes stands out.
func (a *assault) checkNamed() Check {
	return verdict(CheckNamed, a.all(func(l eventlog.Line) bool {
		return l.Event == standsOut && !a.aboutHostile(l)
	}), "")
}
