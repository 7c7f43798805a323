package chaos

import "github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"

// judge holds what the honest peers' logs say against what must hold. failure is what ended the run
// early, or nil.
func (a *assault) judge(failure error) Verdict {
	for _, p := range a.nodes {
		a.Honest = append(a.Honest, hostile.Log{ID: p.ID, Lines: p.lines})
	}
	v := Verdict{
		Attack: a.Kind.Name, Deeds: a.Deeds(), Said: a.Said(),
	}
	v.Checks, _ = a.checks(failure, failure != nil)
	for _, c := range a.Judge() {
		v.Checks = append(v.Checks, verdict(c.Name, c.Faults, "%s", c.Fine))
	}
	v.Withstood = passed(v.Checks)
	return v
}
