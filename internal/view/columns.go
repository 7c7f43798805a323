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
	key    func(Member) float64
	number bool // stands at the right
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

// known is a value to sort by, of those that are known.
func known(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// says is a column of what members say of themselves.
func says(title, how string, of func(p2pdiloco.Claims) *float64) column {
	value := func(m Member) *float64 {
		if m.Says == nil {
			return nil
		}
		return of(*m.Says)
	}
	return column{
		title: title, text: func(m Member) string { return format(value(m), how, 1) },
		key: func(m Member) float64 { return known(value(m)) }, number: true,
	}
}

var columns = []column{
	{title: "MEMBER", text: func(m Member) string { return m.Short }},
	{title: "NAME", text: func(m Member) string { return m.Name }},
	{title: "STATE", text: func(m Member) string { return m.State }},
	{title: "ROLE", text: func(m Member) string { return m.Role }},
	{title: "STEP", text: step, key: func(m Member) float64 { return float64(m.Steps) }, number: true},
	says("TOKENS/S", "%.0f", func(c p2pdiloco.Claims) *float64 { return c.TokensPerSecond }),
	says("LOSS", "%.4g", func(c p2pdiloco.Claims) *float64 { return c.Loss }),
	{
		title: "SHARE", text: func(m Member) string { return format(m.Share, "%.0f%%", 100) },
		key: func(m Member) float64 { return known(m.Share) }, number: true,
	},
	{
		title: "NORM", text: func(m Member) string { return format(m.Norm, "%.3g", 1) },
		key: func(m Member) float64 { return known(m.Norm) }, number: true,
	},
	{
		title: "COSINE", text: func(m Member) string { return format(m.Cosine, "%.2f", 1) },
		key: func(m Member) float64 { return known(m.Cosine) }, number: true,
	},
	{
		title: "TRIMMED", text: func(m Member) string { return format(m.Trimmed, "%.0f%%", 100) },
		key: func(m Member) float64 { return known(m.Trimmed) }, number: true,
	},
	{title: "REACHED", text: way},
	{
		title: "SEEN", text: heard, key: func(m Member) float64 { return float64(m.HeardAgo) }, number: true,
	},
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
	return text + format(m.RTTMillis, " %.3g ms", 1)
}

func heard(m Member) string {
	if m.HeardAgo == 0 {
		return "now"
	}
	return fmt.Sprintf("%ds ago", m.HeardAgo)
}

// widths are the widths of columns in which all of their texts fit.
func widths(columns []column, members []Member) []int {
	all := make([]int, len(columns))
	for i, c := range columns {
		all[i] = len(c.title) + 1 // and the mark of the sorted one
		for _, m := range members {
			all[i] = max(all[i], len([]rune(c.text(m))))
		}
	}
	return slices.Clip(all)
}
