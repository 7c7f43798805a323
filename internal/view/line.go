package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Line is the run in one line of so many columns: the slot, how far it is, the loss, the members,
// and what the peer sends and receives a second, each where there is room for it.
func (v View) Line(columns int) string {
	n := v.Now
	if n.Stage == nil {
		return clip(cmp.Or(n.Headline, n.Phase), columns)
	}
	parts := []string{fmt.Sprintf("slot %d/%d", n.Stage.Slot, n.LastSlot), n.Stage.short()}
	if loss := cmp.Or(n.Loss, n.TrainLoss); loss != nil {
		parts = append(parts, fmt.Sprintf("loss %.4f", *loss))
	}
	parts = append(parts, english.Plural(len(v.Members), "member", ""))
	for _, m := range v.Members {
		if m.Self && m.Says != nil {
			parts = append(parts, rate("↑", m.Says.UpBytesPerSecond), rate("↓", m.Says.DownBytesPerSecond))
		}
	}
	line := ""
	for _, part := range parts {
		longer := strings.TrimSpace(line + "  " + part)
		if part != "" && utf8.RuneCountInString(longer) <= columns {
			line = longer
		}
	}
	return line
}

// short is the stage in few words.
func (st Stage) short() string {
	text := st.Name
	if st.Of > 0 {
		text += fmt.Sprintf(" %d/%d", st.Steps, st.Of)
	}
	if st.LeftSeconds != nil {
		text += ", " + Left(*st.LeftSeconds)
	}
	return text
}

func rate(way string, bytes *float64) string {
	if bytes == nil {
		return ""
	}
	return way + humanize.Bytes(uint64(max(0, *bytes))) + "/s"
}

// Left says how long something takes that has so many seconds left.
func Left(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s left", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min left", d.Minutes())
	}
	return fmt.Sprintf("%.1f h left", d.Hours())
}
