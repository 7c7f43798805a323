package swarm

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Screen shows notes, each a line with its time, and on a terminal a table below them that is
// redrawn.
type Screen struct {
	out   io.Writer
	width int // of the terminal, in columns; 0: unknown
	began time.Time
	drawn int // lines of the table on the screen now
}

// NewScreen writes to out. Lines of tables are cut to width columns, if that is above 0.
func NewScreen(out io.Writer, width int) *Screen {
	return &Screen{out: out, width: width, began: time.Now()}
}

const (
	up        = "\x1b[%dA" // moves the cursor up so many lines
	clearDown = "\x1b[J"   // clears from the cursor to the screen's end
)

// Note prints a line, above the table if there is one.
func (s *Screen) Note(text string) {
	s.clear()
	fmt.Fprintf(s.out, "%6.1fs  %s\n", s.Elapsed().Seconds(), text)
}

// Table draws a table in place of the last one. It is for terminals.
func (s *Screen) Table(text string) {
	text = s.fit(text)
	s.clear()
	_, _ = io.WriteString(s.out, text)
	s.drawn = strings.Count(text, "\n")
}

// Elapsed is the time since the screen was made.
func (s *Screen) Elapsed() time.Duration { return time.Since(s.began) }

func (s *Screen) clear() {
	if s.drawn > 0 {
		fmt.Fprintf(s.out, up+"\r"+clearDown, s.drawn)
	}
	s.drawn = 0
}

// fit cuts lines to the terminal's width: a line that wraps would make the count of lines wrong.
func (s *Screen) fit(text string) string {
	if s.width <= 0 {
		return text
	}
	rows := strings.Split(text, "\n")
	for i, row := range rows {
		rows[i] = row[:min(len(row), s.width-1)]
	}
	return strings.Join(rows, "\n")
}
