package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco"
)

// column is one of the table of members.
type column struct {
	title string
	text  func(Member) string // empty: no value
	// what it is sorted by; nil: the text
	key func(Member) float64
}

func (c column) compare(a, b Member) int {
	if c.key == nil {
		return cmp.Compare(c.text(a), c.text(b))
	}
	return cmp.Compare(c.key(b), c.key(a)) // the largest first
}

// format is a text of a value that may not be known.
func format(v *float64, how string, scale float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(how, scale**v)
}

// figure is a column of numbers that may not be known.
func figure(title, how string, scale float64, of func(m Member) *float64) column {
	return column{
		title: title, text: func(m Member) string { return format(of(m), how, scale) },
		key: func(m Member) float64 {
			if v := of(m); v != nil {
				return *v
			}
			return 0
		},
	}
}

// says is what a member says of itself.
func says(m Member) p2pdiloco.Claims {
	if m.Says == nil {
		return p2pdiloco.Claims{}
	}
	return *m.Says
}

var columns = []column{
	{title: "MEMBER", text: func(m Member) string { return m.Short }},
	{title: "NAME", text: func(m Member) string { return m.Name }},
	{title: "STATE", text: func(m Member) string { return m.State }},
	{title: "ROLE", text: func(m Member) string { return m.Role }},
	{title: "STEP", text: step, key: func(m Member) float64 { return float64(m.Steps) }},
	figure("TOKENS/S", "%.0f", 1, func(m Member) *float64 { return says(m).TokensPerSecond }),
	figure("LOSS", "%.4g", 1, func(m Member) *float64 { return says(m).Loss }),
	figure("SHARE", "%.0f%%", 100, func(m Member) *float64 { return m.Share }),
	figure("NORM", "%.3g", 1, func(m Member) *float64 { return m.Norm }),
	figure("COSINE", "%.2f", 1, func(m Member) *float64 { return m.Cosine }),
	figure("TRIMMED", "%.0f%%", 100, func(m Member) *float64 { return m.Trimmed }),
	{title: "REACHED", text: way},
	{title: "SEEN", text: heard, key: func(m Member) float64 { return float64(m.HeardAgo) }},
}

// filled are the columns in which some member has a value.
func filled(members []Member) []column {
	return slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return !slices.ContainsFunc(members, func(m Member) bool { return c.text(m) != "" })
	})
}

// cells are rows of texts, the titles first.
func cells(columns []column, members []Member) [][]string {
	rows := make([][]string, 1+len(members))
	for _, c := range columns {
		rows[0] = append(rows[0], c.title)
		for i, m := range members {
			rows[1+i] = append(rows[1+i], c.text(m))
		}
	}
	return rows
}

// Table has the members of a status as rows of cells, the titles first, and in notes what is wrong
// with them.
func Table(s p2pdiloco.Status) (rows [][]string, notes []string) {
	members := membersOf(s)
	for _, m := range members {
		for _, w := range m.Warnings {
			notes = append(notes, m.Short+": "+w)
		}
	}
	return cells(filled(members), members), notes
}

func step(m Member) string {
	switch {
	case m.Of > 0:
		return fmt.Sprintf("%d/%d", m.Steps, m.Of)
	case m.Contributes:
		return fmt.Sprint(m.Steps)
	}
	return ""
}

func way(m Member) string {
	text := m.Way
	if m.Transport != "" {
		text += " " + m.Transport
	}
	if m.Rate > 0 {
		text += " " + humanize.Bytes(1000*uint64(m.Rate)) + "/s"
	}
	return text + format(m.RTTMillis, " %.4g ms", 1)
}

func heard(m Member) string {
	if m.HeardAgo == 0 {
		return "now"
	}
	return fmt.Sprintf("%ds ago", m.HeardAgo)
}
