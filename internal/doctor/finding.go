package doctor

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Level is how bad a finding is.
type Level string

// The levels, the best first.
const (
	OK   Level = "ok"
	Warn Level = "warn" // it works, but more slowly or less reliably than it could
	Fail Level = "fail" // a peer cannot take part in a run like this
)

// Finding is what one check found.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	What  string `json:"what"`
	Do    string `json:"do,omitempty"` // what to do; empty: nothing
}

// Found makes a Finding. It drops do at level OK.
func Found(check string, level Level, what, do string) Finding {
	if level == OK {
		do = ""
	}
	return Finding{check, level, what, do}
}

// row is what a check says in one case.
type row struct {
	holds    bool
	level    Level
	what, do string
}

// table is a check: its first row that holds.
func table(check string, rows ...row) Finding {
	r := rows[slices.IndexFunc(rows, func(r row) bool { return r.holds })]
	return Found(check, r.level, r.what, r.do)
}

// levelOf is the level of something that fails, or works less well than it could.
func levelOf(fails, warns bool) Level {
	switch {
	case fails:
		return Fail
	case warns:
		return Warn
	}
	return OK
}

// Worst is the worst level of some findings.
func Worst(findings []Finding) Level {
	has := func(l Level) bool { return slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == l }) }
	return levelOf(has(Fail), has(Warn))
}

// Print writes findings for people.
func Print(out io.Writer, findings []Finding) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Level, f.Check, f.What)
		if f.Do != "" {
			fmt.Fprintf(w, "\t\t  -> %s\n", f.Do)
		}
	}
	_ = w.Flush() // out is the terminal, so the error could not be shown
}
