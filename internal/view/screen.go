package view

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/dustin/go-humanize"
)

var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Faint(true)
	warns = lipgloss.NewStyle().Foreground(lipgloss.Yellow) // as the terminal has it, dark or light
	fails = lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true)
)

const (
	fewMembers = 4 // lines that the table has at least
	fewEvents  = 3 // the same of what happened
)

// View is the screen.
func (m Screen) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen = true
	return v
}

// screen is what is waited for, the loss, the members, what happened. Of the last two as much as
// there is room for.
func (m Screen) screen() string {
	head := m.head()
	foot := faint.Render("q quit   ↑↓ members   s sort   r reverse")
	room := m.height - len(head) - 3 // a line between the parts, and the foot
	table := m.table()
	events := m.events()
	tableRoom := max(fewMembers, room-min(len(events), max(fewEvents, room/3)))
	if len(table) > tableRoom {
		table = table[:tableRoom]
	}
	events = events[:max(0, min(len(events), room-len(table)))]
	lines := append(head, "")
	lines = append(append(append(lines, table...), ""), events...)
	lines = lines[:min(len(lines), max(0, m.height-1))]
	for i, line := range lines {
		lines[i] = lipgloss.NewStyle().MaxWidth(m.width).Render(line)
	}
	return strings.Join(append(lines, foot), "\n")
}

// head says how it goes.
func (m Screen) head() (lines []string) {
	if m.now.Fault != "" {
		lines = append(lines, m.wrap(fails, m.now.Fault)...)
	}
	if !m.now.Known {
		return append(lines, "asking the peer …")
	}
	n, b := m.now.Now, m.now.Bytes
	first := bold.Render("run "+m.now.Run.Name) + "  " + n.Phase
	if n.LastSlot > 0 {
		first += fmt.Sprintf("  slot %d of %d", n.Slot, n.LastSlot)
	}
	if n.LeftSeconds != nil {
		first += "  about " + Left(*n.LeftSeconds)
	}
	lines = append(append(lines, first), m.wrap(bold, n.Headline)...)
	if st := n.Stage; st != nil && (st.Of > 0 || st.LeftSeconds != nil) {
		lines = append(lines, m.progress(*st))
	}
	for _, note := range n.Notes {
		if note != n.Headline {
			lines = append(lines, m.wrap(warns, note)...)
		}
	}
	lines = append(lines, m.loss())
	bytes := fmt.Sprintf("bytes  %s sent, %s received", humanize.Bytes(b.Sent), humanize.Bytes(b.Received))
	if b.Parallel > b.Sent && b.Sent > 0 {
		bytes += fmt.Sprintf(", %.3g times less than data-parallel training", float64(b.Parallel)/float64(b.Sent))
	}
	lines = append(lines, bytes)
	if a := m.now.Agreement; a != nil {
		lines = append(lines, fmt.Sprintf("agreement  height %d; %s", a.Height, a.Text))
		if a.TermsLost > 0 {
			lines = append(lines, m.wrap(lipgloss.NewStyle(), "terms lost  "+a.Terms)...)
		}
	}
	return lines
}

// wrap makes lines of a text that fit.
func (m Screen) wrap(style lipgloss.Style, text string) []string {
	return strings.Split(style.Width(m.width).Render(text), "\n")
}

const barWidth = 24 // columns

func (m Screen) progress(st Stage) string {
	var parts []string
	if st.Of > 0 {
		done := int(barWidth * min(st.Steps, st.Of) / st.Of)
		parts = append(parts, strings.Repeat("█", done)+strings.Repeat("░", barWidth-done),
			fmt.Sprintf("step %d of %d", st.Steps, st.Of))
	}
	if st.LeftSeconds != nil {
		parts = append(parts, "about "+Left(*st.LeftSeconds))
	}
	return strings.Join(parts, "  ")
}

// loss says the newest losses, with a line of what the held-out one was, or else the training loss.
func (m Screen) loss() string {
	n, text := m.now.Now, "loss   not measured yet"
	switch {
	case n.Loss != nil:
		text = fmt.Sprintf("loss   %.4f held out, after slot %d", *n.Loss, n.LossSlot)
	case n.TrainLoss != nil:
		text = fmt.Sprintf("loss   %.4f in training", *n.TrainLoss)
	}
	var values []float64
	for _, p := range m.now.history.points {
		if v := p.Loss; v != nil && n.Loss != nil {
			values = append(values, *v)
		} else if v = p.TrainLoss; v != nil && n.Loss == nil {
			values = append(values, *v)
		}
	}
	return text + "  " + spark(values, max(0, m.width-len(text)-2))
}

func (m Screen) table() []string {
	if len(m.now.Members) == 0 {
		return []string{faint.Render("no members yet")}
	}
	rows := cells(m.columns, m.now.Members)
	rows[0][m.sort] += map[bool]string{false: "▼", true: "▲"}[m.reverse]
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a strings.Builder takes everything
	texts := strings.Split(b.String(), "\n")
	lines := []string{faint.Render(texts[0])}
	for i := min(m.first, len(m.now.Members)-1); i < len(m.now.Members); i++ {
		member, line := m.now.Members[i], texts[1+i]
		if member.Self {
			line = bold.Render(line)
		}
		lines = append(lines, line)
		for _, w := range member.Warnings {
			lines = append(lines, m.wrap(warns.PaddingLeft(2), w)...)
		}
	}
	return lines
}

// events are what happened, the newest first.
func (m Screen) events() (lines []string) {
	for i := len(m.now.events.all) - 1; i >= 0; i-- {
		e := m.now.events.all[i]
		line := e.Time.Local().Format(time.TimeOnly) + "  " + e.Text
		if e.Grave {
			line = warns.Render(line)
		}
		lines = append(lines, line)
	}
	return lines
}

// spark draws values in so many columns, the newest at the right, each as high as it is between the
// lowest and the highest.
func spark(values []float64, columns int) string {
	const marks = "▁▂▃▄▅▆▇█"
	levels := []rune(marks)
	values = values[max(0, len(values)-columns):]
	if len(values) < 2 {
		return ""
	}
	low, high := values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	var b strings.Builder
	for _, v := range values {
		at := 0
		if high > low {
			at = int((v - low) / (high - low) * float64(len(levels)-1))
		}
		b.WriteRune(levels[at])
	}
	return b.String()
}
