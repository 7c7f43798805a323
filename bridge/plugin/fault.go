package plugin

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Errors that a Fault may unwrap to. Other faults are errors of the library's own functions, or
// impossible replies.
var (
	// ErrCrashed: the library ended its process.
	ErrCrashed = errors.New("the trainer ended its process")
	// ErrHung: no progress for Config.Timeout; the process was killed.
	ErrHung = errors.New("the trainer hung")
	// ErrNoHost is returned by Open if the program cannot be a host: it was built without cgo, or
	// for a system without fork and mmap.
	ErrNoHost = errors.New("this program cannot load trainer libraries")
)

// Fault is what a trainer library did wrong. It is one line.
type Fault struct {
	Library string // its path as it was given
	Doing   string // the call that failed
	Problem string // what happened, and what to do
	Err     error  // unwrapped; may be nil
}

func (f *Fault) Error() string { return fmt.Sprintf("%s: %s: %s", f.Library, f.Doing, f.Problem) }

// Unwrap implements the interface that errors.Is needs.
func (f *Fault) Unwrap() error { return f.Err }

// maxReason bounds how much of a library's own text is shown, in bytes.
const maxReason = 600

// oneLine makes a library's text fit for an error: one line of UTF-8 of bounded length, without
// control characters.
func oneLine(s string) string {
	end := ""
	if n := maxReason; len(s) > n {
		for ; n > maxReason-utf8.UTFMax && !utf8.RuneStart(s[n]); n-- {
			// no character is cut in two
		}
		s, end = s[:n], "…"
	}
	clean := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}
	return strings.Join(strings.Fields(strings.Map(clean, strings.ToValidUTF8(s, "\uFFFD"))), " ") + end
}
