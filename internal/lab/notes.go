package lab

import (
	"fmt"
	"io"
	"time"
)

// Notes shows what happens: a line with its time for each thing.
type Notes struct {
	out   io.Writer
	began time.Time
}

// NewNotes writes to out.
func NewNotes(out io.Writer) *Notes { return &Notes{out, time.Now()} }

// Note prints a line.
func (n *Notes) Note(text string) { fmt.Fprintf(n.out, "%6.1fs  %s\n", n.Elapsed().Seconds(), text) }

// Elapsed is the time since the notes began.
func (n *Notes) Elapsed() time.Duration { return time.Since(n.began) }
