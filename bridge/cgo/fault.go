package cgo

import (
	"fmt"
	"strings"
	"unicode"
)

// Fault is what a trainer library did wrong. It is one line.
type Fault struct {
	Library string // its path as it was given
	Doing   string // the call that failed
	Problem string // what happened, and what to do
	Err     error  // unwrapped; may be nil

	stands bool // the trainer can be used further
}

func (f *Fault) Error() string { return fmt.Sprintf("%s: %s: %s", f.Library, f.Doing, f.Problem) }

// Unwrap implements the interface that errors.Is needs.
func (f *Fault) Unwrap() error { return f.Err }

// maxReason bounds how much of a library's own text is shown, in characters.
const maxReason = 600

// oneLine makes a library's text fit for an error: one line of UTF-8 of bounded length, without
// control characters.
func oneLine(s string) string {
	clean := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}
	s = fmt.Sprintf("%.*s", maxReason, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.Join(strings.Fields(strings.Map(clean, s)), " ")
}
