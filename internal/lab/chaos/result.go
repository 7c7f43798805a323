package chaos

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// Result is what a run ends with: the document that chaos --json prints.
type Result struct {
	OK       bool    `json:"ok"`    // whether all checks hold
	Slots    uint64  `json:"slots"` // of a soak: those of the time that counts
	Schedule []Fault `json:"schedule"`

	Checks []Check `json:"checks"`
	// those that came about, in the order in which they ended
	Faults      []Injected `json:"faults"`
	WallSeconds float64    `json:"wall_seconds"`

	// of a soak
	Tokens uint64 `json:"tokens,omitempty"` // that contributions to its slots were trained on
	Left   int    `json:"left,omitempty"`   // faults for which there was no time

	Replay string `json:"replay"`        // the command line that runs the schedule again
	Dir    string `json:"dir,omitempty"` // of a run that failed
}

// result is what the runner saw; failure is what ended it early, or nil.
func (r *runner) result(failure error) Result {
	res := Result{
		Slots: r.cfg.Slots, Schedule: r.faults, Faults: []Injected{}, WallSeconds: r.screen.Elapsed().Seconds(),
		Replay: r.cfg.Replay(),
	}
	if s := r.soak; s != nil {
		res.Slots, res.Tokens = r.ledger.within(s.from, s.length)
		res.Left = len(r.faults) - len(r.done) - len(r.active)
	}
	for _, f := range r.active {
		r.done = append(r.done, f.Injected)
	}
	for _, f := range r.done {
		f.Recovery = r.recovery(f)
		res.Faults = append(res.Faults, f)
	}
	checks, h := r.checks(failure, false)
	b := bill{faults: r.done, byzantine: !r.cfg.forks(), last: r.cfg.Slots, late: r.cfg.lostLate()}
	res.Checks = append(append(checks, b.check(h)...), checkHappen(r.done),
		verdict(CheckFaults, r.odd, "%s", strings.Join(r.fine, "; ")))
	res.OK = failure == nil && passed(res.Checks)
	return res
}

// checks are those of any run, by how the peers ended, or what they held at the end of a soak, and
// by what their logs say together: of the chains of those that finished, or of all.
func (r *runner) checks(failure error, all bool) ([]Check, *history) {
	var ends []ending
	var logs [][]eventlog.Line
	var finished []bool
	hang := Check{Name: CheckHang, OK: failure == nil}
	if failure != nil {
		hang.Detail = failure.Error()
	}
	for i, p := range r.nodes {
		e := p.ending()
		if r.soak != nil && r.soak.ends != nil {
			e = r.soak.ends[i]
		}
		ends, logs, finished = append(ends, e), append(logs, p.lines), append(finished, e.finished || all)
	}
	h := readHistory(logs, finished)
	return append(verdicts(h, ends, r.cfg.Slots), hang, verdict(CheckExits, r.ended, ""),
		checkLogs(r.swarm.Logs())), h
}

func passed(checks []Check) bool {
	return !slices.ContainsFunc(checks, func(c Check) bool { return !c.OK })
}

// finished says whether a peer went to the end of the run: of a provisional branch, too, which the
// check of equal endings then compares.
func finished(rep eventlog.Peer) bool {
	return rep.Ended || rep.Status == string(p2pdiloco.PhaseEndedProvisional)
}

// ending says how a peer's last process ended.
func (p *node) ending() ending {
	e := ending{peer: p.n, why: "it was stopped"}
	rep, ok := p.Report()
	switch {
	case p.Process == nil:
		e.why = "it was not started yet"
	case ok && finished(rep):
		e.finished, e.slot, e.root = true, rep.Slot, rep.StateRoot
	case ok:
		e.why = "it left"
	}
	return e
}

// recovery is the time from a fault's beginning until the next slot was committed; 0 if there was
// none.
func (r *runner) recovery(f Injected) (seconds float64) {
	for slot, at := range r.ledger.commits {
		took := at.Sub(f.began).Seconds()
		if slot > f.BegunSlot && !f.began.IsZero() && took > 0 && (seconds == 0 || took < seconds) {
			seconds = took
		}
	}
	return seconds
}

// print writes the result for people.
func (r Result) print(out io.Writer) {
	r.printChecks(out, "")
	fmt.Fprintf(out, "%.0f s\n", r.WallSeconds)
	again(out, r.Replay, r.Dir)
}

// again says what helps where something failed, with a folder then.
func again(out io.Writer, replay, dir string) {
	if dir != "" {
		fmt.Fprintf(out, "\nRun the same again:  %s\nLogs, events and data:  %s\n", replay, dir)
	}
}

// printChecks says what the checks found, in lines that begin with who.
func (r Result) printChecks(out io.Writer, who string) {
	for _, c := range r.Checks {
		fmt.Fprintf(out, "%-4s  %s%s: %s\n", map[bool]string{true: "ok", false: "FAIL"}[c.OK], who, c.Name, c.Detail)
	}
}
