package chaos

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
)

// CheckGoesOn is the name of the check of the time that a run with hostile peers takes.
const CheckGoesOn = "the run goes on"

// judge holds what the honest peers' logs say against what must hold. failure is what ended the run
// early, or nil.
func (a *assault) judge(failure error) Verdict {
	story := hostile.Story{
		Kind: a.kind, From: a.from, Share: int(a.cfg.Settings().Settled().NewcomerShare), Folder: a.folder,
	}
	for _, p := range a.foes {
		story.Foes = append(story.Foes, p.ID)
	}
	for _, p := range a.nodes {
		story.Honest = append(story.Honest, hostile.Log{ID: p.ID, Lines: p.lines})
	}
	v := Verdict{
		Attack: a.kind.Name, Slots: a.ledger.slot - min(a.from, a.ledger.slot), Deeds: story.Deeds(), Said: story.Said(),
	}
	ends, h := a.told(failure != nil)
	v.Checks = append([]Check{checkGoesOn(failure)}, verdicts(h, ends, a.cfg.Slots)...)
	for _, c := range story.Judge() {
		v.Checks = append(v.Checks, verdict(c.Name, c.Faults, "%s", c.Fine))
	}
	v.Checks = append(v.Checks, verdict(CheckExits, a.ended, ""), checkLogs(a.swarm.Logs()))
	v.Withstood = !slices.ContainsFunc(v.Checks, func(c Check) bool { return !c.OK })
	v.pace(a.ledger, a.from, a.began)
	return v
}

func checkGoesOn(failure error) Check {
	c := checkHang(failure)
	c.Name = CheckGoesOn
	return c
}
