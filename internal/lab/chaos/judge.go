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
	for _, p := range a.nodes {
		a.Honest = append(a.Honest, hostile.Log{ID: p.ID, Lines: p.lines})
	}
	v := Verdict{
		Attack: a.Kind.Name, Slots: a.ledger.slot - min(a.From, a.ledger.slot), Deeds: a.Deeds(), Said: a.Said(),
	}
	ends, h := a.told(failure != nil)
	goesOn := checkHang(failure)
	goesOn.Name = CheckGoesOn
	v.Checks = append([]Check{goesOn}, verdicts(h, ends, a.cfg.Slots)...)
	for _, c := range a.Judge() {
		v.Checks = append(v.Checks, verdict(c.Name, c.Faults, "%s", c.Fine))
	}
	v.Checks = append(v.Checks, verdict(CheckExits, a.ended, ""), checkLogs(a.swarm.Logs()))
	v.Withstood = !slices.ContainsFunc(v.Checks, func(c Check) bool { return !c.OK })
	return v
}
